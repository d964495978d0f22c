/* Python's limited API of version 3.10, so that one binary serves every later version. */
#pragma once
#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

/* CPython exports the vectorcall protocol since 3.8, with this interface. The limited API declares it since 3.12 only.
 */
typedef PyObject *(*vectorcall_function)(PyObject *self, PyObject *const *args, size_t count, PyObject *names);
PyAPI_FUNC(PyObject *) PyVectorcall_Call(PyObject *self, PyObject *args, PyObject *named);
#ifndef Py_TPFLAGS_HAVE_VECTORCALL
#define Py_TPFLAGS_HAVE_VECTORCALL (1UL << 11)
#endif
