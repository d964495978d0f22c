/* The functions of the CUDA runtime that a kernel's host code calls, each done by the driver.
 *
 * NVIDIA's own copy of the CUDA runtime would take longer to start than a kernel takes to load and launch, and be most
 * of the bytes that a cache has of host code. Handles, attributes and most numbers of errors are the same in both.
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
enum { VERSION = 12000 }; /* of CUDA, whose form of each driver function is meant */
enum { LEGACY_STREAM = 1 };
/* Numbers of errors. */
enum {
  INVALID_VALUE = 1,
  INVALID_CONFIGURATION = 9,
  NO_DRIVER = 35,
  INVALID_DEVICE = 101,
  INVALID_CONTEXT = 201,
  NOT_FOUND = 500,
  NOT_SUPPORTED = 801
};
/* Attributes of a device: threads of a block, then the sizes of a block, then those of a grid. */
enum { MOST_THREADS = 1, MOST_BLOCK = 2, MOST_GRID = 5 };

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

static struct {
  int (*init)(unsigned flags);
  int (*version)(int *version);
  int (*error_name)(int status, const char **name);
  int (*error_text)(int status, const char **text);
  int (*current)(void **context);
  int (*make_current)(void *context);
  int (*device)(int *device);
  int (*count)(int *devices);
  int (*handle)(int *device, int ordinal);
  int (*attribute)(int *value, int attribute, int device);
  int (*state)(int device, unsigned *flags, int *active);
  int (*retain)(void **context, int device);
  int (*release)(int device);
  int (*context)(void *context, unsigned long long *number);
  int (*load)(void **library, const void *code, int *jit, void **jit_values, unsigned jit_count, int *options,
              void **values, unsigned count);
  int (*unload)(void *library);
  int (*kernel)(void **kernel, void *library, const char *name);
  int (*set)(int attribute, int value, void *kernel, int device);
  int (*function)(void **function, const void *kernel);
  int (*launch)(const driver_config *config, const void *function, void **parameters, void **extra);
} driver;
static const char *const NAMES[] = {"cuInit",
                                    "cuDriverGetVersion",
                                    "cuGetErrorName",
                                    "cuGetErrorString",
                                    "cuCtxGetCurrent",
                                    "cuCtxSetCurrent",
                                    "cuCtxGetDevice",
                                    "cuDeviceGetCount",
                                    "cuDeviceGet",
                                    "cuDeviceGetAttribute",
                                    "cuDevicePrimaryCtxGetState",
                                    "cuDevicePrimaryCtxRetain",
                                    "cuDevicePrimaryCtxRelease",
                                    "cuCtxGetId",
                                    "cuLibraryLoadData",
                                    "cuLibraryUnload",
                                    "cuLibraryGetKernel",
                                    "cuKernelSetAttribute",
                                    "cuKernelGetFunction",
                                    "cuLaunchKernelEx"};
/* Finds the driver's functions, in the form of a version. */
static int (*find)(const char *name, void **function, int version, unsigned long long flags, int *found);
static int handles[DEVICES]; /* 1 more than the driver's handle of an ordinal */
static place places[FUNCTIONS];
static int devices;
static atomic_int ready;      /* the driver is started, and its functions stand */
static atomic_int unloaded;   /* a library was */
static __thread int had_none; /* this thread had no context before a device was made current */

/* Starts the driver, once; the number of an error where it cannot. Threads that come at once write the same. */
static int start(void) {
  if (atomic_load_explicit(&ready, memory_order_acquire)) return 0;
  void *open = dlopen("libcuda.so.1", RTLD_LAZY); /* it stays open */
  void *finder = open ? dlsym(open, "cuGetProcAddress_v2") : NULL, *found[sizeof NAMES / sizeof *NAMES];
  _Static_assert(sizeof found == sizeof driver, "one pointer for each name");
  if (!finder) return NO_DRIVER;
  __builtin_memcpy(&find, &finder, sizeof find);
  for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; ++i) {
    int result;
    found[i] = NULL;
    if (find(NAMES[i], &found[i], VERSION, LEGACY_STREAM, &result) || !found[i]) return NO_DRIVER;
  }
  __builtin_memcpy(&driver, found, sizeof driver);
  int count, handle, status = driver.init(0);
  if (!status) status = driver.count(&count);
  if (status) return status;
  for (int i = 0; i < count && i < DEVICES; ++i) handles[i] = driver.handle(&handle, i) ? 0 : handle + 1;
  devices = count;
  atomic_store_explicit(&ready, 1, memory_order_release);
  return 0;
}

/* 1 more than the handle of a device; 0 where there is no such device. */
static int handle_of(int device) { return (unsigned)device < DEVICES ? handles[device] : 0; }

/* 1 more than the handle of the device whose context is current; 0 where none is. A tool that checks a program reports
 * calls of the driver that fail, so none is made that has to. */
static int current_handle(void) {
  void *context;
  int handle;
  if (driver.current(&context) || !context || driver.device(&handle)) return 0;
  return handle + 1;
}

/* Makes the primary context of a device current, as the CUDA runtime would. It was started by whoever uses the device;
 * where nobody has, it stays started. */
static int use(int handle) {
  void *context;
  unsigned flags;
  int active, status = driver.state(handle, &flags, &active);
  if (!status) status = driver.retain(&context, handle);
  if (status) return status;
  status = driver.make_current(context);
  if (active) driver.release(handle);
  return status;
}

int cudaGetDevice(int *device) {
  int status = start(), handle = status ? 0 : current_handle();
  if (status) return status;
  for (int i = 0; i < DEVICES; ++i)
    if (!handle || handles[i] == handle) return *device = i, 0; /* the first one is used where none is yet */
  return INVALID_DEVICE;
}

/* A thread that had no context is left without one, where the alternative is a context on a device that the program may
 * not use at all: for a thread without one, the old device is the first. */
int cudaSetDevice(int device) {
  int status = start(), handle = handle_of(device), current = status ? 0 : current_handle();
  if (status) return status;
  if (!handle) return INVALID_DEVICE;
  if (current == handle) return had_none = 0, 0;
  if (current && !device && had_none) return had_none = 0, driver.make_current(NULL);
  had_none = !current;
  return use(handle - 1);
}

int cudaDriverGetVersion(int *version) {
  int status = start();
  return status ? status : driver.version(version);
}

int cudaGetDeviceCount(int *count) {
  int status = start();
  return status ? status : (*count = devices, 0);
}

int cudaDeviceGetAttribute(int *value, int attribute, int device) {
  int status = start(), handle = handle_of(device);
  if (status) return status;
  return handle ? driver.attribute(value, attribute, handle - 1) : INVALID_DEVICE;
}

int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, unsigned long long flags,
                                     int *found) {
  int result = 1, status = start();
  if (status) return status;
  status = find(name, function, (int)version, flags, &result);
  if (found) *found = result;
  return status == NOT_FOUND && found ? 0 : status;
}

int cudaLibraryLoadData(void **library, const void *code, int *jit, void **jit_values, unsigned jit_count, int *options,
                        void **values, unsigned count) {
  int status = start();
  return status ? status : driver.load(library, code, jit, jit_values, jit_count, options, values, count);
}

int cudaLibraryGetKernel(void **kernel, void *library, const char *name) {
  int status = start();
  return status ? status : driver.kernel(kernel, library, name);
}

int cudaLibraryUnload(void *library) {
  int status = start();
  atomic_store(&unloaded, 1);
  return status ? status : driver.unload(library);
}

int cudaKernelSetAttributeForDevice(void *kernel, int attribute, int value, int device) {
  int status = start(), handle = handle_of(device);
  if (status) return status;
  return handle ? driver.set(attribute, value, kernel, handle - 1) : INVALID_DEVICE;
}

/* Kernels for sm_107 call it with the handle of a kernel, for the device that is current. */
int cudaFuncSetAttribute(void *kernel, int attribute, int value) {
  int device, status = cudaGetDevice(&device);
  return status ? status : cudaKernelSetAttributeForDevice(kernel, attribute, value, device);
}

/* The function of a kernel in the current context, or NULL. */
static void *function_of(const void *kernel) {
  unsigned long long number;
  if (atomic_load_explicit(&unloaded, memory_order_acquire) || driver.context(NULL, &number)) return NULL;
  size_t first = ((uintptr_t)kernel >> 4) * 0x9E3779B97F4A7C15ull >> 32;
  for (size_t i = 0; i < PROBES; ++i) {
    place *at = &places[(first + i) % FUNCTIONS];
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

/* Whether a grid or a block is empty, or larger than the current device has it: the driver does not tell that from
 * other wrong arguments. */
static int no_such_grid(const runtime_config *config) {
  int handle = current_handle(), most;
  uint64_t threads = 1;
  for (int axis = 0; handle && axis < 3; ++axis) {
    uint32_t grid = config->grid[axis], block = config->block[axis];
    if (!grid || !block) return 1;
    if (!driver.attribute(&most, MOST_GRID + axis, handle - 1) && grid > (uint32_t)most) return 1;
    if (!driver.attribute(&most, MOST_BLOCK + axis, handle - 1) && block > (uint32_t)most) return 1;
    threads *= block;
  }
  return handle && !driver.attribute(&most, MOST_THREADS, handle - 1) && threads > (uint64_t)most;
}

int cudaLaunchKernelExC(const runtime_config *config, const void *kernel, void **parameters) {
  int status = start();
  if (status) return status;
  if (config->shared > UINT32_MAX) return INVALID_VALUE;
  const void *function = function_of(kernel);
  driver_config same = {.shared = (uint32_t)config->shared,
                        .stream = config->stream,
                        .attributes = config->attributes,
                        .count = config->count};
  __builtin_memcpy(same.grid, config->grid, sizeof same.grid);
  __builtin_memcpy(same.block, config->block, sizeof same.block);
  status = driver.launch(&same, function ? function : kernel, parameters, NULL);
  if (status == INVALID_CONTEXT && !current_handle() && handle_of(0) && !use(handle_of(0) - 1))
    status = driver.launch(&same, kernel, parameters, NULL); /* of a kernel without a tensor that has a device */
  return status == INVALID_VALUE && no_such_grid(config) ? INVALID_CONFIGURATION : status;
}

const char *cudaGetErrorName(int status) {
  const char *name = NULL;
  if (status == INVALID_CONFIGURATION) return "cudaErrorInvalidConfiguration";
  if (status == NO_DRIVER) return "cudaErrorInsufficientDriver";
  return driver.error_name && !driver.error_name(status, &name) && name ? name : "unknown";
}

const char *cudaGetErrorString(int status) {
  const char *text = NULL;
  if (status == INVALID_CONFIGURATION) return "invalid configuration argument";
  if (status == NO_DRIVER) return "there is no CUDA driver (libcuda.so.1), or it is of before CUDA 12";
  return driver.error_text && !driver.error_text(status, &text) && text ? text : "no description";
}

/* Takes the place of the functions that the compiler's archive calls in shims which no kernel calls (runtime.py). */
int precast_missing(void) { return NOT_SUPPORTED; }
