/* The machine: the facts about where a kernel is to run, as a value. */
#ifndef PRECAST_MACHINE_H
#define PRECAST_MACHINE_H

#include "driver.h"
#include "ffi.h"

/* What decides whether an artifact runs here. */
struct machine {
  struct text arch;
  bool has_capability;
  struct version glibc, driver, capability; /* driver 0.0: not known */
  const struct ffi *ffi;
  struct driver *asked; /* gives further facts of the device; NULL for a device that is only supposed */
  int device;
  const char *target, *absent; /* what was supposed; why there is no capability. NULL where it is not so */
};

/* This host with a device, by its number or -1 for the current one; or with one that a target names. */
struct machine machine_of(struct call *call, struct driver *driver, struct ffi *ffi, const char *target, int device);

void put_machine(struct builder *builder, const struct machine *machine);

#endif
