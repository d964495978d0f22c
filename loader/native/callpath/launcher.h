/* The type Launcher: instances are called through vectorcall, pack their arguments and run a kernel's TVM-FFI entry. */
#pragma once
#include <tvm/ffi/c_api.h>

#include "python.h"

/* The type, as a new reference. */
PyObject *launcher_type(void);

/* A TVM-FFI entry that returns the object which an entry returned last on this thread: tvm_ffi alone can make a Python
 * object of it. */
int last_result(void *self, const TVMFFIAny *args, int32_t count, TVMFFIAny *result);

/* Take the error that TVM-FFI has as raised: its kind and its message, as new references. 0 where a Python error is set
 * instead. */
int take_error(PyObject **kind, PyObject **message);
