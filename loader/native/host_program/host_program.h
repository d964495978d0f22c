/* Host programs: what an object's host code does at a call, as data, and the code that does it.
 *
 * The code of a host program is made of an artifact's signature and program, by
 * precast.loader.contract.format.program.program_code, and is opened here with the cubin that it launches.
 * host_program_call is then an entry as an object has one: it checks its arguments as an object does, in the same
 * words, and launches on the current stream of TVM-FFI's environment.
 *
 * reader.c opens the code and trusts nothing in it, checks.c checks the arguments of a call, launches.c launches, and
 * device_code.c loads what is launched and knows contexts. They are part of the call path and of libprecast. Nothing
 * here uses Python, and nothing is linked against CUDA or TVM-FFI: the caller gives the functions that are called
 * there. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <tvm/ffi/extra/c_env_api.h>

/* The functions of libcuda.so.1 that are called, by name. */
enum { HOST_PROGRAM_DRIVER_COUNT = 15 };
extern const char *const HOST_PROGRAM_DRIVER_NAMES[HOST_PROGRAM_DRIVER_COUNT];

/* What is called: the driver's functions, in the order of the names above, all NULL where there is no driver; and two
 * functions of TVM-FFI's library. */
struct host_program_callees {
  void *driver[HOST_PROGRAM_DRIVER_COUNT];
  __typeof__(&TVMFFIErrorSetRaisedFromCStr) raise;
  __typeof__(&TVMFFIEnvGetStream) stream;
};

struct host_program;

/* Open a host program. The code, the cubin and the callees are copied; the driver is first called when something is
 * launched. Null where the code is no sound program: then error, which has room for error_room bytes, says why. */
struct host_program *host_program_open(const void *code, size_t size, const void *cubin, size_t cubin_size,
                                       const struct host_program_callees *callees, char *error, size_t error_room);

/* Call it: of type TVMFFISafeCallType, with the program as self. On an error it returns -1, and the error is the one
 * that TVM-FFI has as raised. Safe from several threads. */
int host_program_call(void *program, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result);

/* The same on a stream of a CUDA device, where the tensors are on that one. */
int host_program_call_on(void *program, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result, int32_t device,
                         void *stream);

/* Do now what the first launch on a device would do. Returns as host_program_call. */
int host_program_ready(struct host_program *program, int32_t device);

/* Unload the device code and free the program. Nothing may be calling it. */
void host_program_close(struct host_program *program);
