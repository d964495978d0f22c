/* Host programs: what an object's host code does at a call, as data, and the code that does it.
 *
 * A host program is made by precast.loader.launch.programs.program_code of an artifact's signature and program, and is opened
 * here with the cubin that it launches. precast_program_call is then an entry as an object has one: it checks its
 * arguments as an object does, in the same words, and launches on the current stream of TVM-FFI's environment.
 *
 * Nothing here is of Python, and the driver is what the caller gives: nothing here is linked against CUDA. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <tvm/ffi/c_api.h>

/* The functions of libcuda.so.1 that are needed, by these very names. All must be there. */
#define PRECAST_DRIVER_NAMES                                                                                       \
  "cuLibraryLoadData", "cuLibraryUnload", "cuLibraryGetKernel", "cuKernelGetParamInfo", "cuKernelSetAttribute",    \
      "cuCtxGetDevice", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2",    \
      "cuLaunchKernelEx", "cuGetErrorName", "cuGetErrorString"
enum { PRECAST_DRIVER_COUNT = 13 };

typedef struct precast_program precast_program;

/* Open a host program. The code and the cubin are copied; the driver's functions, in the order of the names above, are
 * first called when something is launched. Null where the code is no sound program: then error, which has room for
 * error_room bytes, says why. */
precast_program *precast_program_open(const void *code, size_t size, const void *cubin, size_t cubin_size,
                                      void *const driver[PRECAST_DRIVER_COUNT], char *error, size_t error_room);

/* Call it: of type TVMFFISafeCallType, with the program as self. On an error it returns -1, and the error is the one
 * that TVM-FFI has as raised. Safe from several threads. */
int precast_program_call(void *program, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result);

/* Do now what the first launch on a device would do. Returns as precast_program_call. */
int precast_program_ready(precast_program *program, int32_t device);

/* Unload the device code and free the program. Nothing may be calling it. */
void precast_program_close(precast_program *program);
