/* Stands in for the driver's library under cuda_runtime.c: counts what reaches it, and answers as it is told to. The
 * function of a kernel in a context is a number made of both; a kernel of a library, too. A context of a number from
 * PRIMARY is a device's primary one. */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

enum { PRIMARY = 100, DEVICES = 4 };
typedef struct {
  uint32_t grid[3], block[3], shared;
  void *stream;
  void *attributes;
  uint32_t count;
} driver_config;

struct {
  int32_t starts, switches, retained, released;       /* calls of functions */
  int32_t functions, driven, requested;               /* functions looked up, launches, and other requests */
  int32_t device, context, missing, failing, refused; /* refused: calls that the driver did not grant */
  int32_t active;                                     /* a bit for each device whose primary context is started */
  uint64_t function, stream, attributes, options;
  uint32_t grid[3], block[3], shared, count;
} seen;
static __thread int other_context; /* more than a thread's own number */

void use_context(int number) { other_context = number; }
static int context(void) { return other_context ? other_context : seen.context; }

static int init(unsigned flags) { return seen.starts++, flags ? 1 : seen.failing == 3 ? 100 : 0; }
static int driver_version(int *value) { return *value = 13000, 0; }
static int error_name(int status, const char **name) { return *name = "CUDA_ERROR_OTHER", status == 400 ? 0 : 1; }
static int error_text(int status, const char **text) { return *text = "something else", status == 400 ? 0 : 1; }
static int current(void **value) { return *value = (void *)(uintptr_t)context(), 0; }
static int make_current(void *value) {
  if (other_context)
    other_context = (int)(uintptr_t)value;
  else
    seen.context = (int)(uintptr_t)value;
  return seen.switches++, 0;
}
static int count(int *devices) { return *devices = DEVICES, seen.failing == 3 ? 3 : 0; }
static int refuse(int status) { return seen.refused++, status; }
static int device(int *value) {
  if (!context()) return refuse(201);
  return *value = 40 + (context() < PRIMARY ? seen.device : context() - PRIMARY), 0;
}
static int handle(int *value, int ordinal) { return ordinal < DEVICES ? (*value = 40 + ordinal, 0) : refuse(101); }
static int state(int of, unsigned *flags, int *active) { return *flags = 0, *active = seen.active >> (of - 40) & 1, 0; }
static int retain(void **value, int of) {
  if (seen.failing == 5) return 2;
  return *value = (void *)(uintptr_t)(PRIMARY + of - 40), seen.active |= 1 << (of - 40), seen.retained++, 0;
}
static int release(int of) { return (void)of, seen.released++, 0; }
static int number(void *of, unsigned long long *value) {
  return of || !context() ? refuse(201) : (*value = (unsigned long long)context(), 0);
}
static int function(void **value, const void *kernel) {
  __atomic_fetch_add(&seen.functions, 1, __ATOMIC_SEQ_CST);
  return seen.failing == 1 ? 1 : (*value = (void *)((uintptr_t)kernel + (uintptr_t)context()), 0);
}
static int attribute(int *value, int which, int of) {
  return *value = which == 1 ? 900 : which <= 7 ? which * 100 : which * 1000 + of, seen.requested++, 0;
}
static int load(void **library, const void *code, int *jit, void **jit_values, unsigned jit_count, int *options,
                void **values, unsigned count) {
  seen.options = (uintptr_t)jit + (uintptr_t)jit_values + jit_count + (uintptr_t)options + (uintptr_t)values + count;
  return *library = (char *)code + 1, seen.requested++, 0;
}
static int unload(void *library) { return seen.requested++, library ? 0 : 400; }
static int kernel_of(void **kernel, void *library, const char *name) {
  return *kernel = (char *)library + strlen(name), seen.requested++, 0;
}
static int set(int which, int value, void *kernel, int of) {
  return seen.requested++, which == 8 && value == 9 && kernel && of >= 40 ? 0 : 1;
}
static int launch(const driver_config *config, void *made, void **parameters, void **extra) {
  (void)parameters, (void)extra;
  if (seen.failing == 2) return 400;
  if (seen.failing == 6) return 1;
  if (!context()) return 201;
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
  } all[] = {{"cuInit", init},
             {"cuDriverGetVersion", driver_version},
             {"cuGetErrorName", error_name},
             {"cuGetErrorString", error_text},
             {"cuCtxGetCurrent", current},
             {"cuCtxSetCurrent", make_current},
             {"cuDeviceGetCount", count},
             {"cuCtxGetDevice", device},
             {"cuDeviceGet", handle},
             {"cuDeviceGetAttribute", attribute},
             {"cuDevicePrimaryCtxGetState", state},
             {"cuDevicePrimaryCtxRetain", retain},
             {"cuDevicePrimaryCtxRelease", release},
             {"cuCtxGetId", number},
             {"cuLibraryLoadData", load},
             {"cuLibraryUnload", unload},
             {"cuLibraryGetKernel", kernel_of},
             {"cuKernelSetAttribute", set},
             {"cuKernelGetFunction", function},
             {"cuLaunchKernelEx", launch}};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
    if (!strcmp(all[i].name, name) && version == 12000 && flags == 1)
      return *found = seen.missing == 1 ? NULL : all[i].function, *result = seen.missing == 1, 0;
  return *found = NULL, *result = 1, 500;
}

void *stand_in_open(const char *name, int mode) {
  return !strcmp(name, "libcuda.so.1") && mode == RTLD_LAZY && seen.failing != 4 ? &seen : NULL;
}
void *stand_in_symbol(void *library, const char *name) {
  return library == &seen && seen.missing != 2 && !strcmp(name, "cuGetProcAddress_v2") ? (void *)find : NULL;
}
