/* What a compiled kernel asks of the CUDA runtime at each call, answered by the driver alone where that gives the same.
 *
 * A call makes the device of its tensors current, launches, and makes the old device current again. Where the device
 * is current already, the first and the last are nothing. A launch names a kernel of a library, whose function in the
 * current context the driver has to find; a function is kept here for the first context that a kernel runs in. What is
 * not kept, or goes wrong, is left to the CUDA runtime (__real_...), which does everything and words every error.
 *
 * Contexts are known by their number, which is never given twice. A place in the table is never used again, so what was
 * read of it stays true; once a library is unloaded, the table is not read any more, since an address may be. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { DEVICES = 64, FUNCTIONS = 4096, PROBES = 8 };
enum { LEGACY_STREAM = 1, COOPERATIVE = 2, CLUSTER = 4, OVERLAP = 6 };
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

extern int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                            unsigned long long flags, int *found);
extern int __real_cudaGetDevice(int *device);
extern int __real_cudaSetDevice(int device);
extern int __real_cudaLibraryUnload(void *library);
extern int __real_cudaLaunchKernelExC(const runtime_config *config, const void *kernel, void **parameters);

static struct {
  int (*current)(void **context);
  int (*device)(int *device);
  int (*count)(int *devices);
  int (*handle)(int *device, int ordinal);
  int (*context)(void *context, unsigned long long *number);
  int (*function)(void **function, const void *kernel);
  int (*launch)(const driver_config *config, void *function, void **parameters, void **extra);
} driver;
static const char *const NAMES[] = {"cuCtxGetCurrent", "cuCtxGetDevice",      "cuDeviceGetCount", "cuDeviceGet",
                                    "cuCtxGetId",      "cuKernelGetFunction", "cuLaunchKernelEx"};
static int handles[DEVICES]; /* 1 more than the driver's handle of an ordinal */
static place places[FUNCTIONS];
static atomic_int ready, unloaded; /* ready: 1 where the driver has all of it, -1 where it has not */

/* Whether the driver has all that is used here. Threads that come at once write the same. */
static int is_ready(void) {
  int state = atomic_load_explicit(&ready, memory_order_acquire);
  if (state) return state > 0;
  void *found[sizeof NAMES / sizeof *NAMES];
  _Static_assert(sizeof found == sizeof driver, "one pointer for each name");
  state = 1;
  for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; ++i) {
    int result = 1;
    found[i] = NULL;
    if (cudaGetDriverEntryPointByVersion(NAMES[i], &found[i], VERSION, LEGACY_STREAM, &result) || result || !found[i])
      state = -1;
  }
  if (state > 0) {
    __builtin_memcpy(&driver, found, sizeof driver);
    int count, handle;
    if (driver.count(&count)) return 0; /* the driver is not started yet: once more at the next call */
    for (int i = 0; i < count && i < DEVICES; ++i) handles[i] = driver.handle(&handle, i) ? 0 : handle + 1;
  }
  atomic_store_explicit(&ready, state, memory_order_release);
  return state > 0;
}

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
  if (handle && device >= 0 && device < DEVICES && handles[device] == handle) return 0;
  return __real_cudaSetDevice(device);
}

int __wrap_cudaLibraryUnload(void *library) {
  atomic_store(&unloaded, 1);
  return __real_cudaLibraryUnload(library);
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
  int plain = config->shared <= UINT32_MAX;
  for (uint32_t i = 0; i < config->count; ++i) {
    int id = config->attributes[i].id;
    plain &= id == COOPERATIVE || id == CLUSTER || id == OVERLAP;
  }
  void *function = plain ? function_of(kernel) : NULL;
  if (function) {
    driver_config same = {.shared = (uint32_t)config->shared,
                          .stream = config->stream,
                          .attributes = config->attributes,
                          .count = config->count};
    __builtin_memcpy(same.grid, config->grid, sizeof same.grid);
    __builtin_memcpy(same.block, config->block, sizeof same.block);
    if (!driver.launch(&same, function, parameters, NULL)) return 0;
  }
  return __real_cudaLaunchKernelExC(config, kernel, parameters);
}
