/* Stands in for libcuda.so.1: records what is launched, and fails where it is told to. It has one device, a Hopper.
 *
 * It knows the kernels that it is told of, or those that the device code names: "kernels first 20 1 4; second 8". */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { KERNELS = 8, LAUNCHES = 8, BYTES = 4096, FUNCTION = 100 };

typedef struct {
  uint32_t grid[3], block[3], shared;
  void *stream;
  const unsigned char *attributes;
  uint32_t count;
} config;

struct {
  int32_t launches, kernels[LAUNCHES];
  uint32_t grid[LAUNCHES][3], block[LAUNCHES][3], shared[LAUNCHES], cluster[LAUNCHES][3], overlap[LAUNCHES];
  uint64_t stream[LAUNCHES];
  unsigned char parameters[LAUNCHES][BYTES];
  int32_t loads, unloads, sets, shared_set, pushes, pops, current; /* current: the device; below 0, no context */
  int32_t context,
      functions[LAUNCHES]; /* of the contexts of a device, the current one; whether a function was launched */
} recorded;
struct {
  char name[256];
  int32_t count, sizes[64];
} known[KERNELS];
char failing[64]; /* the function that fails */

static int failed(const char *name) { return strcmp(failing, name) ? 0 : 1; }

static void learn(const char *code) {
  memset(known, 0, sizeof known), recorded.launches = 0;
  for (int i = 0; i < KERNELS && *code; ++i) {
    size_t length = strcspn(code += strspn(code, "; "), " ;");
    memcpy(known[i].name, code, length < 255 ? length : 255);
    for (code += length; *code == ' ' && known[i].count < 64; ++known[i].count)
      known[i].sizes[known[i].count] = (int32_t)strtol(code, (char **)&code, 10);
  }
}

int cuLibraryLoadData(void **library, const char *code) {
  if (!strncmp(code, "kernels ", 8)) learn(code + 8);
  *library = (void *)1, __atomic_fetch_add(&recorded.loads, 1, __ATOMIC_SEQ_CST);
  return failed("cuLibraryLoadData");
}
int cuInit(unsigned flags) { return (int)flags; }
int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuDeviceGetName(char *name, int length) { return strncpy(name, "Fake Hopper", (size_t)length), 0; }
int cuDeviceGetAttribute(int *value, int which) { return *value = which == 75 ? 9 : 0, 0; }
int cuLibraryUnload(void) {
  recorded.unloads++;
  return 0;
}
int cuLibraryGetKernel(void **kernel, void *library, const char *name) {
  (void)library;
  for (int i = 0; i < KERNELS; ++i)
    if (!strcmp(known[i].name, name)) return *kernel = (void *)(intptr_t)(i + 1), 0;
  return 500;
}
int cuKernelGetParamInfo(void *kernel, size_t place, size_t *offset, size_t *size) {
  int i = (int)(intptr_t)kernel - 1;
  *offset = 0;
  return place >= (size_t)known[i].count ? 1 : (*size = known[i].sizes[place], 0);
}
int cuKernelSetAttribute(int which, int value) {
  recorded.sets++;
  if (which == 8) recorded.shared_set = value;
  return failed("cuKernelSetAttribute");
}
int cuCtxGetDevice(int *device) {
  *device = 40 + recorded.current;
  return recorded.current < 0 ? 201 : 0;
}
int cuCtxGetId(void *context, unsigned long long *number) {
  (void)context;
  *number = (unsigned long long)(64 * recorded.context + recorded.current + 1);
  return recorded.current < 0 ? 201 : failed("cuCtxGetId");
}
int cuKernelGetFunction(void **function, void *kernel) {
  *function = (void *)((intptr_t)kernel + FUNCTION);
  return failed("cuKernelGetFunction");
}
int cuDeviceGet(int *device, int ordinal) {
  *device = 40 + ordinal;
  return ordinal > 3 ? 101 : 0;
}
int cuDevicePrimaryCtxRetain(void **context) {
  *context = (void *)2;
  return failed("cuDevicePrimaryCtxRetain");
}
int cuCtxPushCurrent_v2(void *context) {
  (void)context;
  recorded.pushes++;
  return 0;
}
int cuCtxPopCurrent_v2(void **context) {
  *context = (void *)2;
  recorded.pops++;
  return 0;
}
int cuGetErrorName(int status, const char **text) {
  *text = status == 1 ? "CUDA_ERROR_INVALID_VALUE" : "?";
  return 0;
}
int cuGetErrorString(int status, const char **text) {
  *text = status == 1 ? "invalid argument" : "?";
  return 0;
}
int cuLaunchKernelEx(const config *made, void *kernel, void **parameters) {
  if ((intptr_t)kernel > FUNCTION && failed("function")) return 400;
  int i = __atomic_fetch_add(&recorded.launches, 1, __ATOMIC_SEQ_CST), k = (int)(intptr_t)kernel % FUNCTION - 1;
  if (i >= LAUNCHES) return failed("cuLaunchKernelEx"); /* counted, not recorded */
  memcpy(recorded.grid[i], made->grid, 12), memcpy(recorded.block[i], made->block, 12);
  recorded.shared[i] = made->shared, recorded.stream[i] = (uint64_t)(uintptr_t)made->stream, recorded.kernels[i] = k;
  recorded.functions[i] = (intptr_t)kernel > FUNCTION;
  recorded.cluster[i][0] = recorded.cluster[i][1] = recorded.cluster[i][2] = 1, recorded.overlap[i] = 0;
  for (uint32_t a = 0; a < made->count; ++a) {
    const unsigned char *attribute = made->attributes + 72 * a;
    int32_t id;
    memcpy(&id, attribute, 4);
    if (id == 4) memcpy(recorded.cluster[i], attribute + 8, 12);
    if (id == 6) memcpy(&recorded.overlap[i], attribute + 8, 4);
  }
  unsigned char *out = recorded.parameters[i];
  for (int p = 0; p < known[k].count; out += known[k].sizes[p++]) memcpy(out, parameters[p], (size_t)known[k].sizes[p]);
  return failed("cuLaunchKernelEx");
}
