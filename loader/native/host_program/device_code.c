/* Device code: loaded once, prepared for each device, and launched in contexts. */
#include "device_code.h"

#include <sched.h>
#include <stdio.h>

const char *const HOST_PROGRAM_DRIVER_NAMES[HOST_PROGRAM_DRIVER_COUNT] = {
    "cuLibraryLoadData", "cuLibraryUnload", "cuLibraryGetKernel",       "cuKernelGetParamInfo", "cuKernelSetAttribute",
    "cuCtxGetDevice",    "cuDeviceGet",     "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2",  "cuCtxPopCurrent_v2",
    "cuLaunchKernelEx",  "cuCtxGetId",      "cuKernelGetFunction",      "cuGetErrorName",       "cuGetErrorString",
};

enum { SMALL = 48 << 10 }; /* bytes of shared memory that a kernel may have without being asked */
enum { MAX_SHARED = 8, NON_PORTABLE_CLUSTER = 14 }; /* attributes of a kernel */
enum { NO_CONTEXT = 201 };                          /* a status */

int driver_failed(const host_program *p, const char *what, int status) {
  const char *name = NULL, *words = NULL;
  char message[512];
  p->driver.error_name(status, &name), p->driver.error_text(status, &words);
  snprintf(message, sizeof message, "CUDA error %d (%s): %s, from %s", status, name ? name : "?", words ? words : "?",
           what);
  return raise_error(p, "CUDADialectError", message);
}

static void lock(host_program *p) {
  while (atomic_flag_test_and_set_explicit(&p->loading, memory_order_acquire)) sched_yield();
}
static void unlock(host_program *p) { atomic_flag_clear_explicit(&p->loading, memory_order_release); }

/* Load the device code, and hold what it says of its parameters against the program: wrongly packed parameters would be
 * read as addresses. */
static int load(host_program *p) {
  int status = 0;
  if (!p->library) {
    status = p->driver.load(&p->library, p->cubin, NULL, NULL, 0, NULL, NULL, 0);
    if (status) return p->library = NULL, driver_failed(p, "cuLibraryLoadData", status);
  }
  for (int i = 0; i < p->step_count; ++i) {
    const step *s = &p->steps[i];
    void *kernel;
    if (atomic_load(&p->kernels[i])) continue;
    if ((status = p->driver.kernel(&kernel, p->library, text(p, s->name))))
      return driver_failed(p, "cuLibraryGetKernel", status);
    for (int k = 0; k <= s->parameter_count; ++k) {
      size_t offset, size;
      int more = !p->driver.parameter(kernel, (size_t)k, &offset, &size);
      if (more != (k < s->parameter_count) ||
          (more && ((int64_t)size < s->parameters[k].size || (int64_t)size >= s->parameters[k].size + 8)))
        return raise_error(p, "RuntimeError",
                           "the device code takes other parameters than the host program packs: rebuild the cache");
    }
    atomic_store(&p->kernels[i], kernel);
  }
  return 0;
}

int prepare_kernel(host_program *p, int i, int device, int shared, void **kernel) {
  *kernel = atomic_load_explicit(&p->kernels[i], memory_order_acquire);
  if (*kernel && atomic_load_explicit(&p->prepared[i][device], memory_order_acquire) > shared) return 0;
  int status = 0, handle = 0;
  lock(p);
  int found = load(p);
  *kernel = atomic_load(&p->kernels[i]);
  if (!found && atomic_load(&p->prepared[i][device]) <= shared) {
    status = p->driver.device(&handle, device);
    if (!status && shared > SMALL) status = p->driver.set(MAX_SHARED, shared, *kernel, handle);
    if (!status) status = p->driver.set(NON_PORTABLE_CLUSTER, 1, *kernel, handle);
    if (!status) atomic_store(&p->prepared[i][device], shared + 1);
  }
  unlock(p);
  return found ? found : status ? driver_failed(p, "cuKernelSetAttribute", status) : 0;
}

int enter_device(host_program *p, int device, int *entered) {
  *entered = 0;
  if (!p->driver.current)
    return raise_error(p, "LaunchError", "there was no CUDA driver when the kernel was opened: install it");
  int current, handle, status = p->driver.current(&current);
  if (status && status != NO_CONTEXT && status != 3) return driver_failed(p, "cuCtxGetDevice", status);
  int is_current = !status;
  if ((status = p->driver.device(&handle, device))) return driver_failed(p, "cuDeviceGet", status);
  if (is_current && current == handle) {
    unsigned long long number = 0;
    uint64_t none = 0;
    if (!p->driver.number(NULL, &number)) atomic_compare_exchange_strong(&p->numbers[device], &none, number);
    return 0;
  }
  void *context = atomic_load(&p->contexts[device]);
  if (!context) {
    if ((status = p->driver.retain(&context, handle))) return driver_failed(p, "cuDevicePrimaryCtxRetain", status);
    atomic_store(&p->contexts[device], context);
  }
  if ((status = p->driver.push(context))) return driver_failed(p, "cuCtxPushCurrent", status);
  return *entered = 1, 0;
}

int in_first_context(const host_program *p, int device) {
  unsigned long long current;
  uint64_t first = atomic_load_explicit(&p->numbers[device], memory_order_relaxed);
  return first && !p->driver.number(NULL, &current) && current == first;
}

void *function_of(host_program *p, int i, int device, void *kernel) {
  void *function = atomic_load_explicit(&p->functions[i][device], memory_order_acquire);
  if (function) return function;
  if (p->driver.function(&function, kernel)) return kernel;
  atomic_store_explicit(&p->functions[i][device], function, memory_order_release);
  return function;
}
