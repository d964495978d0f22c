#include "known_types.h"

enum { EXCHANGES = 8, TUPLES = 32, NUMBERS = 16 };

/* A remembered type is never released, so that its address means no other type. */
static struct {
  PyTypeObject *type;
  const DLPackExchangeAPI *exchange;
} exchanges[EXCHANGES];
static PyTypeObject *tuples[TUPLES];
static struct {
  PyTypeObject *type;
  number_kind kind;
} numbers[NUMBERS];

/* PyObject_HasAttrString prints, since Python 3.13, what the look-up raises. */
static int has_attribute(PyTypeObject *type, const char *name) {
  PyObject *value = PyObject_GetAttrString((PyObject *)type, name);
  if (!value) PyErr_Clear();
  Py_DecRef(value);
  return value != NULL;
}

static const DLPackExchangeAPI *find_exchange(PyTypeObject *type) {
  static const char *const capsule_name = "dlpack_exchange_api";
  if (has_attribute(type, "__tvm_ffi_object__")) return NULL;
  PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
  const DLPackExchangeAPI *exchange = NULL;
  if (capsule && PyCapsule_IsValid(capsule, capsule_name)) exchange = PyCapsule_GetPointer(capsule, capsule_name);
  if (!capsule) PyErr_Clear();
  Py_DecRef(capsule);
  while (exchange && exchange->header.version.major != DLPACK_MAJOR_VERSION)
    exchange = (const DLPackExchangeAPI *)exchange->header.prev_api;
  int complete = exchange && exchange->dltensor_from_py_object_no_sync && exchange->current_work_stream;
  return complete ? exchange : NULL;
}

const DLPackExchangeAPI *exchange_of(PyTypeObject *type) {
  int slot = 0;
  for (; slot < EXCHANGES && exchanges[slot].type; ++slot)
    if (exchanges[slot].type == type) return exchanges[slot].exchange;
  for (int i = 0; i < NUMBERS && numbers[i].type; ++i)
    if (numbers[i].type == type && numbers[i].kind != NO_NUMBER) return NULL;
  const DLPackExchangeAPI *exchange = find_exchange(type);
  for (; slot < EXCHANGES && exchanges[slot].type;) ++slot; /* Python code ran, and another thread may have taken it */
  if (exchange && slot < EXCHANGES) {
    Py_IncRef((PyObject *)type);
    exchanges[slot].type = type;
    exchanges[slot].exchange = exchange;
  }
  return exchange;
}

/* A class whose bases are tuple and object alone: nothing is mixed in. */
static int is_plain_subclass(PyTypeObject *type) {
  static const char *const others[] = {"__tvm_ffi_object__", "__dlpack_c_exchange_api__", "__cuda_stream__",
                                       "__dlpack__", NULL};
  PyObject *bases = PyObject_GetAttrString((PyObject *)type, "__mro__");
  int plain = bases && PyTuple_Size(bases) == 3;
  if (!bases) PyErr_Clear();
  Py_DecRef(bases);
  for (int i = 0; plain && others[i]; ++i) plain = !has_attribute(type, others[i]);
  return plain;
}

int is_tuple_type(PyTypeObject *type) {
  if (type == &PyTuple_Type) return 1;
  if (!PyType_HasFeature(type, Py_TPFLAGS_TUPLE_SUBCLASS) || Py_TYPE(type) != &PyType_Type) return 0;
  int slot = 0;
  for (; slot < TUPLES && tuples[slot]; ++slot)
    if (tuples[slot] == type) return 1;
  int plain = is_plain_subclass(type);
  for (; slot < TUPLES && tuples[slot];) ++slot;
  if (plain && slot < TUPLES) {
    Py_IncRef((PyObject *)type);
    tuples[slot] = type;
  }
  return plain;
}

number_kind number_kind_of(PyObject *kernel, PyObject *argument) {
  PyTypeObject *type = Py_TYPE(argument);
  int slot = 0;
  for (; slot < NUMBERS && numbers[slot].type; ++slot)
    if (numbers[slot].type == type) return numbers[slot].kind;
  if (slot == NUMBERS) return NO_NUMBER;
  PyObject *method = PyObject_GetAttrString(kernel, "_number_kind");
  PyObject *result = method ? PyObject_CallFunctionObjArgs(method, argument, NULL) : NULL;
  number_kind kind = result ? (number_kind)PyLong_AsLong(result) : NO_NUMBER;
  if (PyErr_Occurred()) PyErr_Clear();
  Py_DecRef(method);
  Py_DecRef(result);
  /* Python code ran, and another thread may have remembered a type meanwhile. */
  for (slot = 0; slot < NUMBERS && numbers[slot].type; ++slot)
    if (numbers[slot].type == type) return kind;
  if (slot < NUMBERS) {
    Py_IncRef((PyObject *)type);
    numbers[slot].type = type;
    numbers[slot].kind = kind;
  }
  return kind;
}
