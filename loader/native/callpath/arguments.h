/* The arguments of a call, packed as tvm_ffi packs them: each kind that is packed here becomes exactly what tvm_ffi
 * would make of it. Any other kind is refused, and the call goes to tvm_ffi itself. */
#pragma once
#include <tvm/ffi/extra/c_env_api.h>

#include "python.h"

enum { ARGUMENTS = 64, EXTENTS = 512, OBJECTS = 256 };
enum { ROOM = ARGUMENTS * (sizeof(TVMFFIAny) + sizeof(DLTensor)) + EXTENTS * sizeof(int64_t) };
enum { NO_DEVICE = -1 };

/* Where tensors are: the device of the first one that is not on the CPU (NO_DEVICE while there is none), the stream
 * that its owner works on, and the exchange of the owner. */
typedef struct {
  DLDevice device;
  void *stream;
  const DLPackExchangeAPI *exchange;
} environment;

/* One call: what its arguments became, close together: what a call touches after a launch has to come from far. Shapes
 * and strides are copied, since another thread may resize a tensor once the interpreter is released. */
typedef struct {
  PyObject *kernel;
  environment environment;
  TVMFFIAny *args;
  unsigned char *free; /* of the room: each tensor, and then its shape and strides */
  int extent_count, object_count;
  _Alignas(8) unsigned char room[ROOM];
  TVMFFIObjectHandle objects[OBJECTS]; /* what tuples, and the tensors in them, became */
} packed_call;

/* Begin a call of a kernel with so many arguments. */
void start_call(packed_call *call, PyObject *kernel, Py_ssize_t count);

/* Pack the next argument; false for one of another kind, and then there may be a Python error to clear. */
int pack_argument(packed_call *call, PyObject *argument, TVMFFIAny *packed);

/* Release the objects of a call. */
void end_call(packed_call *call);
