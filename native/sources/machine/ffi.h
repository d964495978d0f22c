/* TVM-FFI's library: its version, the stream of a launch, and the errors that kernels leave. */
#ifndef PRECAST_FFI_H
#define PRECAST_FFI_H

#include <tvm/ffi/extra/c_env_api.h>

#include "target.h"

struct ffi {
  const char *path; /* of its library; NULL where the environment or the linker finds it */
  bool asked;
  const char *absent; /* why it cannot be used; NULL where it can */
  char why[400];
  struct version version;
  char name[40]; /* the version as text */
  __typeof__(&TVMFFIEnvSetStream) set_stream;
  __typeof__(&TVMFFIEnvGetStream) stream;
  __typeof__(&TVMFFIErrorSetRaisedFromCStr) raise;
  __typeof__(&TVMFFIErrorMoveFromRaised) move_error;
  __typeof__(&TVMFFIObjectDecRef) release;
  __typeof__(&TVMFFIFunctionGetGlobal) find;
  __typeof__(&TVMFFIFunctionCall) call;
};

/* Open the library, once. The caller holds the lock. */
void start_ffi(struct ffi *ffi);

/* The kind and the text of the error that this thread has raised, which is cleared. */
const char *raised(struct call *call, const struct ffi *ffi);

#endif
