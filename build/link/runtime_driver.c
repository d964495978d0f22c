/* What a compiled kernel requests of the CUDA runtime, answered by the driver alone.
 *
 * The first call of a copy of the CUDA runtime prepares it, which takes longer than to load and launch a kernel. So the
 * few functions that a kernel's host code calls at its first and at every other call go to the driver, which a process
 * that has tensors on a GPU has started. Where it is not started, or lacks a function, the CUDA runtime (__real_...)
 * does all. Handles, attributes and the numbers of errors are the same in both.
 *
 * A call makes the device of its tensors current, launches, and makes the old device current again. Where the device
 * is current already, the first and the last are nothing. A launch names a kernel of a library, whose function in the
 * current context the driver has to find; a function is kept here for the first context that a kernel runs in.
 *
 * Contexts are known by their number, which is never given twice. A place in the table is never used again, so what was
 * read of it stays true; once a library is unloaded, the table is not read any more, since an address may be. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { DEVICES = 64, FUNCTIONS = 4096, PROBES = 8 };
enum { LEGACY_STREAM = 1, INVALID_VALUE = 1, INVALID_FUNCTION = 98 };
enum { VERSION = 12000 }; /* of CUDA, whose form of each driver function is meant */

typedef struct {
  int32_t id, padding;
  uint64_t value[8];
} attribute; /* cudaLaunchAttribute and CUlaunchAttribute are the same */
typedef struct {
  uint32_t grid[3], block[3];
  size_t shared;
  void *stream;
  attribute *attributes;
  uint32_t count;
} runtime_config; /* cudaLaunchConfig_t */
typedef struct {
  uint32_t grid[3], block[3], shared;
  void *stream;
  attribute *attributes;
  uint32_t count;
} driver_config; /* CUlaunchConfig */
typedef struct {
  _Atomic(const void *) kernel;
  uint64_t context;
  _Atomic(void *) function; /* NULL until the context's number stands */
} place;

extern int __real_cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                                   unsigned long long flags, int *found);
extern int __real_cudaGetDeviceCount(int *count);
extern int __real_cudaGetDevice(int *device);
extern int __real_cudaSetDevice(int device);
extern int __real_cudaDeviceGetAttribute(int *value, int attribute, int device);
extern int __real_cudaLibraryLoadData(void **library, const void *code, int *jit, void **jit_values, unsigned jit_count,
                                      int *options, void **values, unsigned count);
extern int __real_cudaLibraryGetKernel(void **kernel, void *library, const char *name);
extern int __real_cudaLibraryUnload(void *library);
extern int __real_cudaKernelSetAttributeForDevice(void *kernel, int attribute, int value, int device);
extern int __real_cudaLaunchKernelExC(const runtime_config *config, const void *kernel, void **parameters);

static struct {
  int (*current)(void **context);
  int (*device)(int *device);
  int (*count)(int *devices);
  int (*handle)(int *device, int ordinal);
  int (*attribute)(int *value, int attribute, int device);
  int (*context)(void *context, unsigned long long *number);
  int (*load)(void **library, const void *code, int *jit, void **jit_values, unsigned jit_count, int *options,
              void **values, unsigned count);
  int (*unload)(void *library);
  int (*kernel)(void **kernel, void *library, const char *name);
  int (*set)(int attribute, int value, void *kernel, int device);
  int (*function)(void **function, const void *kernel);
  int (*launch)(const driver_config *config, const void *function, void **parameters, void **extra);
} driver;
static const char *const NAMES[] = {"cuCtxGetCurrent",      "cuCtxGetDevice",       "cuDeviceGetCount",
                                    "cuDeviceGet",          "cuDeviceGetAttribute", "cuCtxGetId",
                                    "cuLibraryLoadData",    "cuLibraryUnload",      "cuLibraryGetKernel",
                                    "cuKernelSetAttribute", "cuKernelGetFunction",  "cuLaunchKernelEx"};
/* Finds the driver's functions, in the form of a version. */
static int (*find)(const char *name, void **function, int version, unsigned long long flags, int *found);
static int handles[DEVICES]; /* 1 more than the driver's handle of an ordinal */
static place places[FUNCTIONS];
static int devices;
static atomic_int ready;      /* 1 where the driver is started and has all of it, -1 where it has not */
static atomic_int unloaded;   /* a library was */
static atomic_int by_runtime; /* the CUDA runtime loaded a library; it then loads and unloads all */

/* Whether the driver is started and has all that is used here. Threads that come at once write the same. */
static int is_ready(void) {
  int state = atomic_load_explicit(&ready, memory_order_acquire);
  if (state) return state > 0;
  void *open = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!open) return 0; /* it is not started yet: once more at the next call */
  void *finder = dlsym(open, "cuGetProcAddress_v2"), *found[sizeof NAMES / sizeof *NAMES];
  dlclose(open); /* which whoever opened it keeps open */
  _Static_assert(sizeof found == sizeof driver, "one pointer for each name");
  state = finder ? 1 : -1;
  __builtin_memcpy(&find, &finder, sizeof find);
  for (size_t i = 0; state > 0 && i < sizeof NAMES / sizeof *NAMES; ++i) {
    int result = 1;
    found[i] = NULL;
    if (find(NAMES[i], &found[i], VERSION, LEGACY_STREAM, &result) || result || !found[i]) state = -1;
  }
  if (state > 0) {
    __builtin_memcpy(&driver, found, sizeof driver);
    int count, handle;
    if (driver.count(&count)) return 0;
    for (int i = 0; i < count && i < DEVICES; ++i) handles[i] = driver.handle(&handle, i) ? 0 : handle + 1;
    devices = count;
  }
  atomic_store_explicit(&ready, state, memory_order_release);
  return state > 0;
}

/* 1 more than the handle of a device; 0 where that is not known here. */
static int handle_of(int device) { return is_ready() && device >= 0 && device < DEVICES ? handles[device] : 0; }

/* 1 more than the handle of the device whose context is current; 0 where none is. A tool that checks a program reports
 * calls of the driver that fail, so none is made that has to. */
static int current_handle(void) {
  void *context;
  int handle;
  if (!is_ready() || driver.current(&context) || !context || driver.device(&handle)) return 0;
  return handle + 1;
}

int __wrap_cudaGetDevice(int *device) {
  int handle = current_handle();
  for (int i = 0; handle && i < DEVICES; ++i)
    if (handles[i] == handle) return *device = i, 0;
  return __real_cudaGetDevice(device);
}

int __wrap_cudaSetDevice(int device) {
  int handle = current_handle();
  if (handle && handle_of(device) == handle) return 0;
  return __real_cudaSetDevice(device);
}

int __wrap_cudaGetDeviceCount(int *count) {
  if (!is_ready()) return __real_cudaGetDeviceCount(count);
  return *count = devices, 0;
}

int __wrap_cudaDeviceGetAttribute(int *value, int attribute, int device) {
  int handle = handle_of(device);
  if (!handle) return __real_cudaDeviceGetAttribute(value, attribute, device);
  return driver.attribute(value, attribute, handle - 1);
}

int __wrap_cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                            unsigned long long flags, int *found) {
  int result = 1;
  if (is_ready() && !find(name, function, (int)version, flags, &result) && !result) {
    if (found) *found = result;
    return 0;
  }
  return __real_cudaGetDriverEntryPointByVersion(name, function, version, flags, found);
}

int __wrap_cudaLibraryLoadData(void **library, const void *code, int *jit, void **jit_values, unsigned jit_count,
                               int *options, void **values, unsigned count) {
  if (is_ready() && !jit_count && !count && !atomic_load(&by_runtime))
    return driver.load(library, code, NULL, NULL, 0, NULL, NULL, 0);
  atomic_store(&by_runtime, 1);
  return __real_cudaLibraryLoadData(library, code, jit, jit_values, jit_count, options, values, count);
}

int __wrap_cudaLibraryGetKernel(void **kernel, void *library, const char *name) {
  if (is_ready() && !atomic_load(&by_runtime)) return driver.kernel(kernel, library, name);
  return __real_cudaLibraryGetKernel(kernel, library, name);
}

int __wrap_cudaLibraryUnload(void *library) {
  atomic_store(&unloaded, 1);
  return is_ready() && !atomic_load(&by_runtime) ? driver.unload(library) : __real_cudaLibraryUnload(library);
}

int __wrap_cudaKernelSetAttributeForDevice(void *kernel, int attribute, int value, int device) {
  int handle = handle_of(device);
  if (!handle) return __real_cudaKernelSetAttributeForDevice(kernel, attribute, value, device);
  return driver.set(attribute, value, kernel, handle - 1);
}

/* The function of a kernel in the current context, or NULL. */
static void *function_of(const void *kernel) {
  unsigned long long number;
  if (!is_ready() || atomic_load_explicit(&unloaded, memory_order_acquire) || driver.context(NULL, &number))
    return NULL;
  size_t start = ((uintptr_t)kernel >> 4) * 0x9E3779B97F4A7C15ull >> 32;
  for (size_t i = 0; i < PROBES; ++i) {
    place *at = &places[(start + i) % FUNCTIONS];
    const void *holds = atomic_load_explicit(&at->kernel, memory_order_relaxed);
    if (holds == kernel) {
      void *function = atomic_load_explicit(&at->function, memory_order_acquire);
      return function && at->context == number ? function : NULL;
    }
    if (holds) continue;
    void *function;
    if (driver.function(&function, kernel)) return NULL;
    if (atomic_compare_exchange_strong(&at->kernel, &holds, kernel)) {
      at->context = number;
      atomic_store_explicit(&at->function, function, memory_order_release);
      return function;
    }
    if (holds == kernel) return function; /* another thread was quicker */
  }
  return NULL;
}

int __wrap_cudaLaunchKernelExC(const runtime_config *config, const void *kernel, void **parameters) {
  if (!is_ready()) return __real_cudaLaunchKernelExC(config, kernel, parameters);
  if (config->shared > UINT32_MAX) return INVALID_VALUE;
  const void *function = function_of(kernel);
  driver_config same = {.shared = (uint32_t)config->shared,
                        .stream = config->stream,
                        .attributes = config->attributes,
                        .count = config->count};
  __builtin_memcpy(same.grid, config->grid, sizeof same.grid);
  __builtin_memcpy(same.block, config->block, sizeof same.block);
  int status = driver.launch(&same, function ? function : kernel, parameters, NULL);
  if (!status) return 0;
  int worded = __real_cudaLaunchKernelExC(config, kernel, parameters); /* it tells more kinds of errors apart */
  return worded == INVALID_FUNCTION ? status : worded;
}
