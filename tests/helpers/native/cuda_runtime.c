/* Stands in for the CUDA runtime and the driver under runtime_launch.c: counts what reaches each, and answers as it is
 * told to. The function of a kernel in a context is a number made of both. */
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
  int32_t gets, sets, unloads, launches;              /* that reached the CUDA runtime */
  int32_t functions, driven;                          /* looked up in, and launched by the driver */
  int32_t device, context, missing, failing, refused; /* refused: calls that the driver did not grant */
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

int cudaGetDriverEntryPointByVersion(const char *name, void **found, unsigned version, unsigned long long flags,
                                     int *result) {
  static const struct {
    const char *name;
    void *function;
  } all[] = {{"cuCtxGetCurrent", current}, {"cuDeviceGetCount", count}, {"cuCtxGetDevice", device},
             {"cuDeviceGet", handle},      {"cuCtxGetId", number},      {"cuKernelGetFunction", function},
             {"cuLaunchKernelEx", launch}};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
    if (!strcmp(all[i].name, name) && version == 12000 && flags == 1)
      return *found = seen.missing ? NULL : all[i].function, *result = seen.missing, 0;
  return 1;
}

int __real_cudaGetDevice(int *value) { return *value = -7, seen.gets++, 0; }
int __real_cudaSetDevice(int value) { return seen.device = value, seen.sets++, 0; }
int __real_cudaLibraryUnload(void *library) { return (void)library, seen.unloads++, 0; }
int __real_cudaLaunchKernelExC(const runtime_config *config, const void *kernel, void **parameters) {
  (void)config, (void)kernel, (void)parameters;
  return seen.launches++, 98;
}
