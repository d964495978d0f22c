#include <gnu/libc-version.h>
#include <string.h>
#include <sys/utsname.h>

#include "machine.h"

static struct text arch_of_host(struct call *call) {
  struct utsname name;
  return uname(&name) ? TEXT("") : text_of(terminated(call, text_of(name.machine)));
}

struct machine machine_of(struct call *call, struct driver *driver, struct ffi *ffi, const char *target, int device) {
  struct machine machine = {.arch = arch_of_host(call), .device = -1};
  machine.glibc = version_of(text_of(gnu_get_libc_version()));
  start_ffi(ffi);
  machine.ffi = ffi;
  if (target) {
    struct target parsed;
    if (device >= 0)
      fail(call, PRECAST_WRONG_REQUEST, "device and target exclude each other: give the one to resolve for");
    if (!parse_target(text_of(target), &parsed))
      fail(call, PRECAST_WRONG_REQUEST, "%s is not a target: write it like 'sm_90a', 'sm_100a', 'sm_100f' or 'sm_80'",
           quoted(call, text_of(target)));
    machine.target = target;
    machine.capability = (struct version){parsed.major, parsed.minor};
    machine.has_capability = true;
    return machine;
  }
  start_driver(driver);
  if (driver->absent) {
    machine.absent = driver->absent;
    return machine;
  }
  if (device >= driver->count) {
    machine.absent = format(call, "there is no CUDA device %d: this process sees %d", device, driver->count);
    return machine;
  }
  machine.device = device < 0 ? current_device(driver) : device;
  machine.capability = driver->devices[machine.device].capability;
  machine.has_capability = true;
  machine.driver = driver->version;
  machine.asked = driver;
  return machine;
}

void put_machine(struct builder *builder, const struct machine *machine) {
  struct version capability = machine->capability;
  if (machine->target) {
    put(builder, "for %s (a device of %d.%d)", machine->target, capability.major, capability.minor);
  } else if (machine->has_capability) {
    put(builder, "on device %d (", machine->device);
    for (const char *name = machine->asked->devices[machine->device].name; *name; ++name)
      put(builder, "%c", *name >= ' ' && *name <= '~' ? *name : '?');
    put(builder, ", %d.%d)", capability.major, capability.minor);
  } else {
    put(builder, "without a CUDA device: %s", machine->absent);
  }
  put(builder, ", %.*s, glibc %d.%d", (int)machine->arch.size, machine->arch.data, machine->glibc.major,
      machine->glibc.minor);
  if (machine->driver.major) put(builder, ", driver for CUDA %d.%d", machine->driver.major, machine->driver.minor);
  if (machine->ffi->absent) {
    put(builder, ", no tvm-ffi");
  } else {
    put(builder, ", tvm-ffi %s", machine->ffi->name);
  }
}
