/* Error helpers that compiled kernels call; everything else in the runtime library comes from static archives.
 *
 * A kernel hands in TVM-FFI's setter, so nothing here links against TVM-FFI. The launch check is only called by
 * kernels compiled with it; its long list of limits is put in words once, here, instead of in every kernel. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

typedef void (*set_error_fn)(const char *kind, const char **parts, int32_t count);

extern const char *cudaGetErrorName(int code);
extern const char *cudaGetErrorString(int code);

#define EXPORT __attribute__((visibility("default")))

EXPORT void CuteDSLRT_TVMFFISetRaisedCudaError(set_error_fn set_error, int32_t code) {
  char number[16];
  snprintf(number, sizeof number, "%" PRId32, code);
  const char *parts[] = {"CUDA error ", number, " (", cudaGetErrorName(code), "): ", cudaGetErrorString(code)};
  set_error("CUDADialectError", parts, 6);
}

EXPORT void CuteDSLRT_TVMFFISetRaisedCudaLaunchError(set_error_fn set_error, int32_t grid_x, int32_t grid_y,
                                                     int32_t grid_z, int32_t block_x, int32_t block_y, int32_t block_z,
                                                     int32_t block_threads, int64_t dynamic_smem, int32_t device,
                                                     int32_t max_threads, int32_t max_block_x, int32_t max_block_y,
                                                     int32_t max_block_z, int32_t max_grid_x, int32_t max_grid_y,
                                                     int32_t max_grid_z, int32_t max_smem, int32_t max_smem_optin,
                                                     const char *violation, const char *source_file,
                                                     int32_t source_line, int32_t source_col, int32_t source_end_col) {
  char text[768];
  (void)source_end_col;
  snprintf(text, sizeof text,
           "launch refused on device %" PRId32 ": %s. grid (%" PRId32 ", %" PRId32 ", %" PRId32 ") of at most (%" PRId32
           ", %" PRId32 ", %" PRId32 "), block (%" PRId32 ", %" PRId32 ", %" PRId32 ") of at most (%" PRId32
           ", %" PRId32 ", %" PRId32 "), %" PRId32 " threads of at most %" PRId32 ", shared memory %" PRId64
           " of at most %" PRId32 " (%" PRId32 " on request)",
           device, violation ? violation : "a limit is exceeded", grid_x, grid_y, grid_z, max_grid_x, max_grid_y,
           max_grid_z, block_x, block_y, block_z, max_block_x, max_block_y, max_block_z, block_threads, max_threads,
           dynamic_smem, max_smem, max_smem_optin);
  char place[32];
  snprintf(place, sizeof place, ":%" PRId32 ":%" PRId32, source_line, source_col);
  const char *parts[] = {text, "; launched at ", source_file ? source_file : "?", place};
  set_error("CUDADialectError", parts, source_file ? 4 : 1);
}
