/* How many clusters of a size a GPU runs at once. */
#ifndef PRECAST_OCCUPANCY_H
#define PRECAST_OCCUPANCY_H

#include "driver.h"

/* How many clusters of so many blocks run at once on a device; -1 where the driver cannot count them. */
int count_clusters(struct driver *driver, int device, int blocks);

#endif
