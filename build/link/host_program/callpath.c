/* Host programs as a cache's call path has them: linked against TVM-FFI, and opened by the loader under these names
 * (precast.loader.launch.programs.native_program). A loader opens the call paths of older caches, and older loaders open
 * this one, so these functions stay as they are. */
#include <string.h>

#include "host_program.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void *precast_program_open(const void *code, size_t size, const void *cubin, size_t cubin_size,
                                  void *const driver[HOST_PROGRAM_DRIVER_COUNT], char *error, size_t error_room) {
  struct host_program_callees callees = {.raise = TVMFFIErrorSetRaisedFromCStr, .stream = TVMFFIEnvGetStream};
  memcpy(callees.driver, driver, sizeof callees.driver);
  return host_program_open(code, size, cubin, cubin_size, &callees, error, error_room);
}

EXPORT int precast_program_call(void *program, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  return host_program_call(program, arguments, count, result);
}

EXPORT int precast_program_ready(void *program, int32_t device) { return host_program_ready(program, device); }

EXPORT void precast_program_close(void *program) { host_program_close(program); }
