/* Stands in for the CUDA runtime, and the driver's library, under runtime_driver.c: counts what reaches each, and
 * answers as it is told to. The function of a kernel in a context is a number made of both; a kernel of a library, too.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

typedef struct {
  uint32_t grid[3], block[3];
  size_t shared;
  void *stream;
  void *attributes;
  uint32_t count;
} runtime_config;
typedef struct {
  uint32_t grid[3], block[3], shared;
  void *stream;
  void *attributes;
  uint32_t count;
} driver_config;

struct {
  int32_t gets, sets, unloads, launches, others;      /* that reached the CUDA runtime */
  int32_t functions, driven, asked;                   /* looked up in, launched by, and other requests to the driver */
  int32_t device, context, missing, failing, refused; /* refused: calls that the driver did not grant */
  int32_t worded;                                     /* what the CUDA runtime returns of a launch */
  uint64_t function, stream, attributes;
  uint32_t grid[3], block[3], shared, count;
} seen;
static __thread int other_context; /* more than a thread's own number */

void use_context(int number) { other_context = number; }
static int context(void) { return other_context ? other_context : seen.context; }

static int current(void **value) { return *value = (void *)(uintptr_t)context(), 0; }
static int count(int *devices) { return *devices = 4, seen.failing == 3 ? 3 : 0; }
static int refuse(int status) { return seen.refused++, status; }
static int device(int *value) { return context() ? (*value = 40 + seen.device, 0) : refuse(201); }
static int handle(int *value, int ordinal) { return ordinal < 4 ? (*value = 40 + ordinal, 0) : refuse(101); }
static int number(void *of, unsigned long long *value) {
  return of || !context() ? refuse(201) : (*value = (unsigned long long)context(), 0);
}
static int function(void **value, const void *kernel) {
  __atomic_fetch_add(&seen.functions, 1, __ATOMIC_SEQ_CST);
  return seen.failing == 1 ? 1 : (*value = (void *)((uintptr_t)kernel + (uintptr_t)context()), 0);
}
static int attribute(int *value, int which, int of) { return *value = which * 1000 + of, seen.asked++, 0; }
static int load(void **library, const void *code, int *jit, void **jit_values, unsigned jit_count, int *options,
                void **values, unsigned count) {
  int plain = !jit && !jit_values && !jit_count && !options && !values && !count;
  return *library = (char *)code + 1, seen.asked++, plain ? 0 : 1;
}
static int unload(void *library) { return seen.asked++, library ? 0 : 400; }
static int kernel_of(void **kernel, void *library, const char *name) {
  return *kernel = (char *)library + strlen(name), seen.asked++, 0;
}
static int set(int which, int value, void *kernel, int of) {
  return seen.asked++, which == 8 && value == 9 && kernel && of >= 40 ? 0 : 1;
}
static int launch(const driver_config *config, void *made, void **parameters, void **extra) {
  (void)parameters, (void)extra;
  if (seen.failing == 2) return 400;
  __atomic_fetch_add(&seen.driven, 1, __ATOMIC_SEQ_CST);
  seen.function = (uint64_t)(uintptr_t)made;
  memcpy(seen.grid, config->grid, 12), memcpy(seen.block, config->block, 12);
  seen.shared = config->shared, seen.stream = (uint64_t)(uintptr_t)config->stream;
  seen.attributes = (uint64_t)(uintptr_t)config->attributes, seen.count = config->count;
  return 0;
}

static int find(const char *name, void **found, int version, unsigned long long flags, int *result) {
  static const struct {
    const char *name;
    void *function;
  } all[] = {{"cuCtxGetCurrent", current},  {"cuDeviceGetCount", count},         {"cuCtxGetDevice", device},
             {"cuDeviceGet", handle},       {"cuDeviceGetAttribute", attribute}, {"cuCtxGetId", number},
             {"cuLibraryLoadData", load},   {"cuLibraryUnload", unload},         {"cuLibraryGetKernel", kernel_of},
             {"cuKernelSetAttribute", set}, {"cuKernelGetFunction", function},   {"cuLaunchKernelEx", launch}};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
    if (!strcmp(all[i].name, name) && version == 12000 && flags == 1)
      return *found = seen.missing == 1 ? NULL : all[i].function, *result = seen.missing == 1, 0;
  return *found = NULL, *result = 1, 0;
}

void *stand_in_open(const char *name, int mode) { /* only if it is open already, or a program without it would end */
  return !strcmp(name, "libcuda.so.1") && mode == (RTLD_LAZY | RTLD_NOLOAD) && seen.failing != 4 ? &seen : NULL;
}
void *stand_in_symbol(void *library, const char *name) {
  return library == &seen && seen.missing != 2 && !strcmp(name, "cuGetProcAddress_v2") ? (void *)find : NULL;
}
int stand_in_close(void *library) { return library != &seen; }

static int other(int status) { return seen.others++, status; }
int __real_cudaGetDriverEntryPointByVersion(const char *name, void **found, unsigned version, unsigned long long flags,
                                            int *result) {
  (void)name, (void)version, (void)flags;
  return *found = NULL, *result = 1, other(0);
}
int __real_cudaGetDeviceCount(int *value) { return *value = -7, other(0); }
int __real_cudaDeviceGetAttribute(int *value, int which, int of) {
  return (void)which, (void)of, *value = -7, other(0);
}
int __real_cudaLibraryLoadData(void **library, const void *code, int *jit, void **jit_values, unsigned jit_count,
                               int *options, void **values, unsigned count) {
  (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
  return *library = (char *)code + 2, other(0);
}
int __real_cudaLibraryGetKernel(void **kernel, void *library, const char *name) {
  return (void)name, *kernel = library, other(0);
}
int __real_cudaKernelSetAttributeForDevice(void *kernel, int which, int value, int of) {
  return (void)kernel, (void)which, (void)value, (void)of, other(0);
}
int __real_cudaGetDevice(int *value) { return *value = -7, seen.gets++, 0; }
int __real_cudaSetDevice(int value) { return seen.device = value, seen.sets++, 0; }
int __real_cudaLibraryUnload(void *library) { return (void)library, seen.unloads++, 0; }
int __real_cudaLaunchKernelExC(const runtime_config *config, const void *kernel, void **parameters) {
  (void)config, (void)kernel, (void)parameters;
  return seen.launches++, seen.worded;
}
