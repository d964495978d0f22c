/* What the call path needs of Python. All of it is in the stable ABI of CPython 3.10 and up, and is declared here, so
 * that a build host needs no Python.h. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct object {
  intptr_t references;
  struct object *type;
} object;
typedef object *(*vectorcall)(object *self, object *const *args, size_t count, object *names);
typedef object *(*allocator)(object *type, intptr_t items);
typedef struct {
  int slot;
  void *value;
} type_slot;
typedef struct {
  const char *name;
  int size;
  int item_size;
  unsigned flags;
  type_slot *slots;
} type_spec;
typedef struct {
  const char *name;
  int type;
  intptr_t offset;
  int flags;
  const char *doc;
} member;
typedef struct {
  const char *name;
  object *(*function)(object *self, object *argument);
  int flags;
  const char *doc;
} method;

enum { TP_ALLOC = 47, TP_CALL = 50, TP_DOC = 56, TP_METHODS = 64, TP_NEW = 65, TP_MEMBERS = 72 };
enum { METHOD_ONE_ARGUMENT = 8, MEMBER_SIZE = 19, MEMBER_READ_ONLY = 1 };
enum { TYPE_MAY_BE_BASE = 1 << 10, TYPE_HAS_VECTORCALL = 1 << 11, TYPE_DEFAULT = 1 << 18 };
enum { TYPE_IS_INT = 1 << 24, TYPE_IS_TUPLE = 1 << 26 };

extern object _Py_NoneStruct, PyBool_Type, PyFloat_Type, PyLong_Type, PyTuple_Type, PyType_Type, _Py_TrueStruct;
extern object *PyExc_ImportError, *PyExc_RuntimeError;
extern object *PyBool_FromLong(long), *PyFloat_FromDouble(double), *PyLong_FromLongLong(long long);
extern object *PyDict_New(void), *PyTuple_New(intptr_t), *PyTuple_GetItem(object *, intptr_t);
extern object *PyErr_Occurred(void), *PyObject_Call(object *, object *, object *);
extern object *PyObject_CallFunctionObjArgs(object *, ...), *PyObject_GetAttrString(object *, const char *);
extern object *PyType_FromSpec(type_spec *), *PyUnicode_DecodeUTF8(const char *, intptr_t, const char *);
extern object *PyVectorcall_Call(object *, object *, object *);
extern void PyErr_Clear(void), PyErr_SetObject(object *, object *), PyErr_SetString(object *, const char *);
extern void Py_IncRef(object *), Py_DecRef(object *), *PyEval_SaveThread(void), PyEval_RestoreThread(void *);
extern void *PyCapsule_GetPointer(object *, const char *), *PyLong_AsVoidPtr(object *), *PyType_GetSlot(object *, int);
extern void *PyInterpreterState_Get(void);
extern int64_t PyInterpreterState_GetID(void *);
extern long long PyLong_AsLongLongAndOverflow(object *, int *);
extern double PyFloat_AsDouble(object *);
extern int PyCapsule_IsValid(object *, const char *), PyDict_SetItem(object *, object *, object *);
extern int PyTuple_SetItem(object *, intptr_t, object *);
extern intptr_t PyTuple_Size(object *);
extern unsigned long PyType_GetFlags(object *);
