#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "attributes.h"

#define LIBRARY "libcuda.so.1"
#define MAJOR 75 /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, and the minor one */
#define MINOR 76
#define MULTIPROCESSORS 16
#define CLUSTER_LAUNCH 120
#define NOT_INITIALIZED 3

void *driver_function(struct driver *driver, const char *name) { return driver->library ? dlsym(driver->library, name) : NULL; }

static const char *error_text(struct driver *driver, int code) {
  int (*describe)(int, const char **) = driver_function(driver, "cuGetErrorString");
  const char *text = NULL;
  if (describe) describe(code, &text);
  return text ? text : "an error without a text";
}

/* Whether a function returned 0; else the reason is kept. */
static bool done(struct driver *driver, const char *name, int code) {
  if (!code) return true;
  if (code == NOT_INITIALIZED && !strcmp(name, "cuInit")) {
    snprintf(driver->why, sizeof driver->why, "CUDA was started before this process was forked (start workers anew instead)");
  } else {
    snprintf(driver->why, sizeof driver->why, "%s: error %d, %s", name, code, error_text(driver, code));
  }
  return false;
}

static bool has(struct driver *driver, const char *name, void **function) {
  *function = driver_function(driver, name);
  if (!*function) snprintf(driver->why, sizeof driver->why, LIBRARY " has no %s", name);
  return *function;
}

static bool describe(struct driver *driver, struct device *device, int ordinal) {
  void *get, *name, *attribute;
  return has(driver, "cuDeviceGet", &get) && has(driver, "cuDeviceGetName", &name) &&
         has(driver, "cuDeviceGetAttribute", &attribute) &&
         done(driver, "cuDeviceGet", ((int (*)(int *, int))get)(&device->handle, ordinal)) &&
         done(driver, "cuDeviceGetName", ((int (*)(char *, int, int))name)(device->name, sizeof device->name - 1, device->handle)) &&
         done(driver, "cuDeviceGetAttribute", ((int (*)(int *, int, int))attribute)(&device->capability.major, MAJOR, device->handle)) &&
         done(driver, "cuDeviceGetAttribute", ((int (*)(int *, int, int))attribute)(&device->capability.minor, MINOR, device->handle));
}

bool open_driver(struct driver *driver) {
  if (!driver->library && !driver->asked) driver->library = dlopen(driver->path ? driver->path : LIBRARY, RTLD_NOW | RTLD_LOCAL);
  return driver->library;
}

static bool start(struct driver *driver) {
  void *version, *init, *count;
  int number = 0;
  if (!open_driver(driver)) {
    snprintf(driver->why, sizeof driver->why, "%.300s is not installed", driver->path ? driver->path : LIBRARY);
    return false;
  }
  if (!has(driver, "cuDriverGetVersion", &version) || !has(driver, "cuInit", &init) || !has(driver, "cuDeviceGetCount", &count))
    return false;
  if (!done(driver, "cuDriverGetVersion", ((int (*)(int *))version)(&number))) return false;
  driver->version = (struct version){number / 1000, number % 1000 / 10};
  if (!done(driver, "cuInit", ((int (*)(unsigned))init)(0))) return false;
  if (!done(driver, "cuDeviceGetCount", ((int (*)(int *))count)(&driver->count))) return false;
  if (driver->count > DEVICES) driver->count = DEVICES;
  for (int i = 0; i < driver->count; ++i)
    if (!describe(driver, &driver->devices[i], i)) return false;
  if (driver->count > 0) return true;
  snprintf(driver->why, sizeof driver->why, "the driver sees no device (is CUDA_VISIBLE_DEVICES empty?)");
  return false;
}

void start_driver(struct driver *driver) {
  if (driver->asked) return;
  driver->absent = start(driver) ? NULL : driver->why;
  driver->asked = true;
}

int current_device(struct driver *driver) {
  int (*context)(void **) = driver_function(driver, "cuCtxGetCurrent"), (*device)(int *) = driver_function(driver, "cuCtxGetDevice");
  void *current = NULL;
  int handle;
  if (context && device && !context(&current) && current && !device(&handle))
    for (int i = 0; i < driver->count; ++i)
      if (driver->devices[i].handle == handle) return i;
  return 0;
}

static bool attribute(struct driver *driver, int device, int which, int64_t *number) {
  int (*ask)(int *, int, int) = driver_function(driver, "cuDeviceGetAttribute"), value = 0;
  if (!ask || ask(&value, which, driver->devices[device].handle)) return false;
  *number = value;
  return true;
}

/* The N of max_active_clusters_N; 0 for any other name. */
static int cluster_size(struct text name) {
  const char *prefix = "max_active_clusters_";
  size_t begin = strlen(prefix);
  int size = 0;
  if (!begins(name, prefix) || name.size - begin < 1 || name.size - begin > 2) return 0;
  for (size_t i = begin; i < name.size; ++i) {
    if (name.data[i] < '0' || name.data[i] > '9') return 0;
    size = size * 10 + (name.data[i] - '0');
  }
  return size <= CLUSTER ? size : 0;
}

static bool clusters(struct driver *driver, int device, int size, int64_t *number) {
  int64_t launch = 0;
  if (size == 1 && (!attribute(driver, device, CLUSTER_LAUNCH, &launch) || !launch))
    return attribute(driver, device, MULTIPROCESSORS, number); /* one block a multiprocessor */
  int *known = &driver->devices[device].clusters[size];
  if (!*known) {
    int counted = count_clusters(driver, device, size);
    *known = counted < 0 ? -1 : counted + 1;
  }
  *number = *known - 1;
  return *known > 0;
}

const char *fact_of(struct call *call, struct driver *driver, int device, struct text name, int64_t *number) {
  for (size_t i = 0; i < sizeof ATTRIBUTES / sizeof *ATTRIBUTES; ++i)
    if (is(name, ATTRIBUTES[i].name)) return attribute(driver, device, ATTRIBUTES[i].number, number) ? "" : NULL;
  int size = cluster_size(name);
  if (size) return clusters(driver, device, size, number) ? "" : NULL;
  if (is(name, "name")) return terminated(call, text_of(driver->devices[device].name));
  if (is(name, "total_memory")) {
    int (*ask)(size_t *, int) = driver_function(driver, "cuDeviceTotalMem_v2");
    size_t bytes = 0;
    if (!ask || ask(&bytes, driver->devices[device].handle)) return NULL;
    return *number = (int64_t)bytes, "";
  }
  if (is(name, "driver_version")) return *number = 1000 * driver->version.major + 10 * driver->version.minor, "";
  if (is(name, "max_portable_cluster_size")) {
    int64_t launch = 0;
    *number = attribute(driver, device, CLUSTER_LAUNCH, &launch) && launch ? 8 : 1;
    return "";
  }
  return NULL;
}
