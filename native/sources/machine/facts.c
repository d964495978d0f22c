#include "facts.h"

#include <string.h>

#include "attributes.h"
#include "occupancy.h"

#define MULTIPROCESSORS 16  /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
#define CLUSTER_LAUNCH  120 /* CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH */

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
