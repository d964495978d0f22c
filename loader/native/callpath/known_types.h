/* What types of arguments are: decided once for each type, and remembered while there is room. */
#pragma once
#include <tvm/ffi/extra/c_env_api.h>

#include "python.h"

typedef enum { NO_NUMBER, AN_INT, A_FLOAT } number_kind;

/* The C exchange of a type of tensors; NULL for any other type, and where tvm_ffi treats the type in another way. */
const DLPackExchangeAPI *exchange_of(PyTypeObject *type);

/* Whether a type is tuple, or a class of named tuples that tvm_ffi takes for nothing else. */
int is_tuple_type(PyTypeObject *type);

/* Whether tvm_ffi takes an argument for an int or a float, by its method. The kernel's method _number_kind decides. */
number_kind number_kind_of(PyObject *kernel, PyObject *argument);
