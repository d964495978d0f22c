/* The driver counts clusters for an empty kernel of one thread with all the shared memory that a block may have, as the
 * DSL does. */
#include "occupancy.h"

#define SHARED_OPTIN      97 /* CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
#define SHARED            8  /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
#define NON_PORTABLE      14 /* CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED */
#define CLUSTER_DIMENSION 4

static const char EMPTY[] = ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry empty() { ret; }\n";

struct attribute { /* CUlaunchAttribute */
  int32_t kind, padding;
  uint32_t extent[3];
  unsigned char rest[52];
};

struct launch { /* CUlaunchConfig */
  uint32_t grid[3], block[3], shared;
  void *stream;
  const struct attribute *attributes;
  uint32_t count;
};

struct functions {
  int (*retain)(void **, int), (*push)(void *), (*pop)(void **), (*load)(void **, const void *), (*unload)(void *);
  int (*kernel)(void **, void *, const char *), (*set)(void *, int, int), (*attribute)(int *, int, int);
  int (*occupancy)(int *, void *, const struct launch *);
};

static int count(const struct functions *cuda, int device, int blocks) {
  void *module, *kernel;
  int shared = 0, found = -1;
  if (cuda->load(&module, EMPTY)) return -1;
  if (!cuda->kernel(&kernel, module, "empty") && !cuda->attribute(&shared, SHARED_OPTIN, device) &&
      !cuda->set(kernel, SHARED, shared) && !cuda->set(kernel, NON_PORTABLE, 1)) {
    struct attribute attribute = {.kind = CLUSTER_DIMENSION, .extent = {(uint32_t)blocks, 1, 1}};
    struct launch launch = {.grid = {(uint32_t)blocks, 1, 1},
                            .block = {1, 1, 1},
                            .shared = (uint32_t)shared,
                            .attributes = &attribute,
                            .count = 1};
    if (cuda->occupancy(&found, kernel, &launch) || found < 0) found = -1;
  }
  cuda->unload(module);
  return found;
}

int count_clusters(struct driver *driver, int device, int blocks) {
  struct functions cuda = {
      .retain = driver_function(driver, "cuDevicePrimaryCtxRetain"),
      .push = driver_function(driver, "cuCtxPushCurrent_v2"),
      .pop = driver_function(driver, "cuCtxPopCurrent_v2"),
      .load = driver_function(driver, "cuModuleLoadData"),
      .unload = driver_function(driver, "cuModuleUnload"),
      .kernel = driver_function(driver, "cuModuleGetFunction"),
      .set = driver_function(driver, "cuFuncSetAttribute"),
      .attribute = driver_function(driver, "cuDeviceGetAttribute"),
      .occupancy = driver_function(driver, "cuOccupancyMaxActiveClusters"),
  };
  if (!cuda.retain || !cuda.push || !cuda.pop || !cuda.load || !cuda.unload || !cuda.kernel || !cuda.set ||
      !cuda.attribute || !cuda.occupancy)
    return -1;   /* a driver that is older than clusters */
  void *context; /* the primary one, which a launch needs as well: it stays */
  int handle = driver->devices[device].handle;
  if (cuda.retain(&context, handle) || cuda.push(context)) return -1;
  int found = count(&cuda, handle, blocks);
  cuda.pop(&context);
  return found;
}
