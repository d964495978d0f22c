/* The CUDA driver, asked through libcuda.so.1 alone: which devices there are, and facts about them. */
#ifndef PRECAST_DRIVER_H
#define PRECAST_DRIVER_H

#include "target.h"

#define DEVICES 64
#define CLUSTER 32 /* blocks of a cluster, that anything asks about */

struct device {
  int handle;
  char name[256];
  struct version capability;
  int clusters[CLUSTER + 1]; /* 1 more than how many of so many blocks run at once; 0: not asked, -1: not known */
};

struct driver {
  const char *path;   /* of its library; NULL where the linker finds it */
  bool asked;         /* whether the rest is known */
  const char *absent; /* why there is no usable driver or device; NULL where there is one. It is a text of its own. */
  char why[400];
  void *library;
  struct version version; /* of CUDA, that it serves; 0.0 where it is not known */
  int count;
  struct device devices[DEVICES];
};

/* Open its library; false where there is none. The caller holds the lock of the driver. */
bool open_driver(struct driver *driver);

/* Ask for the devices, once. The caller holds the lock of the driver. */
void start_driver(struct driver *driver);

/* The number of the device of the current context; 0 where there is none. */
int current_device(struct driver *driver);

/* A function of the driver's library that returns a CUresult; NULL where it has none. */
void *driver_function(struct driver *driver, const char *name);

#endif
