/* Stands in for a cache's runtime library: records what a compiled entry asks of CUDA, and does none of it. */
#include <stdint.h>
#include <string.h>

typedef int (*load_fn)(void **library);
typedef int (*device_fn)(void **library, int device);

static struct {
  long loads, kernels, launches, errors;
  void *stream;
} seen;
long shim_count(int which) {
  return which == 0 ? seen.loads : which == 1 ? seen.kernels : which == 2 ? seen.launches : seen.errors;
}
void *shim_stream(void) { return seen.stream; }

int _cudaLibraryLoadData(void **library) {
  seen.loads++;
  *library = (void *)0x11;
  return 0;
}
int _cudaLibraryGetKernel(void **kernel) {
  seen.kernels++;
  *kernel = (void *)0x22;
  return 0;
}
int _cuKernelGetAttribute(int *value) {
  *value = 0;
  return 0;
}
int _cudaDeviceGetAttribute(int *value) {
  *value = 232448;
  return 0;
}
int _cudaKernelSetAttributeForDevice(void) { return 0; }
int _cudaFuncSetAttribute(void) { return 0; }
int _cudaGetDevice(int *device) {
  *device = 0;
  return 0;
}
int _cudaSetDevice(int device) { return device; }

struct config {
  unsigned grid[3], block[3];
  size_t shared;
  void *stream;
};
int _cudaLaunchKernelEx(const struct config *config) {
  seen.launches++;
  seen.stream = config->stream;
  return 0;
}

int cuda_dialect_init_library_once(void **slot, load_fn load, device_fn to_device, void *set_error) {
  (void)set_error;
  if (*slot) return 0;
  void *library = 0;
  int status = load(&library);
  if (!status && to_device) status = to_device(&library, 0);
  if (!status) *slot = library;
  return status;
}
void cuda_dialect_unload_library_once(void **slot) { *slot = 0; }
void CuteDSLRT_TVMFFISetRaisedCudaError(void *set_error, int code) {
  (void)set_error;
  (void)code;
  seen.errors++;
}
