#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY         "libcuda.so.1"
#define MAJOR           75 /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, and the minor one */
#define MINOR           76
#define NOT_INITIALIZED 3

void *driver_function(struct driver *driver, const char *name) {
  return driver->library ? dlsym(driver->library, name) : NULL;
}

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
    snprintf(driver->why, sizeof driver->why,
             "CUDA was started before this process was forked (start workers anew instead)");
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
         done(driver, "cuDeviceGetName",
              ((int (*)(char *, int, int))name)(device->name, sizeof device->name - 1, device->handle)) &&
         done(driver, "cuDeviceGetAttribute",
              ((int (*)(int *, int, int))attribute)(&device->capability.major, MAJOR, device->handle)) &&
         done(driver, "cuDeviceGetAttribute",
              ((int (*)(int *, int, int))attribute)(&device->capability.minor, MINOR, device->handle));
}

bool open_driver(struct driver *driver) {
  if (!driver->library && !driver->asked)
    driver->library = dlopen(driver->path ? driver->path : LIBRARY, RTLD_NOW | RTLD_LOCAL);
  return driver->library;
}

static bool start(struct driver *driver) {
  void *version, *init, *count;
  int number = 0;
  if (!open_driver(driver)) {
    snprintf(driver->why, sizeof driver->why, "%.300s is not installed", driver->path ? driver->path : LIBRARY);
    return false;
  }
  if (!has(driver, "cuDriverGetVersion", &version) || !has(driver, "cuInit", &init) ||
      !has(driver, "cuDeviceGetCount", &count))
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
  int (*context)(void **) = driver_function(driver, "cuCtxGetCurrent"),
                      (*device)(int *) = driver_function(driver, "cuCtxGetDevice");
  void *current = NULL;
  int handle;
  if (context && device && !context(&current) && current && !device(&handle))
    for (int i = 0; i < driver->count; ++i)
      if (driver->devices[i].handle == handle) return i;
  return 0;
}
