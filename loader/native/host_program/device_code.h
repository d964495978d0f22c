/* The device code of a host program, and the contexts that it is launched in. */
#pragma once
#include "opened_program.h"

/* Leave an error of the driver with TVM-FFI; -1. */
int driver_failed(const host_program *p, const char *what, int status);

/* A kernel that may use so much shared memory on a device, and clusters of any size. */
int prepare_kernel(host_program *p, int i, int device, int shared, void **kernel);

/* Make a device's primary context current where another is; entered says whether it did. */
int enter_device(host_program *p, int device, int *entered);

/* Whether the current context is the first one of a device that a launch came from. Contexts are known by their number,
 * which is never given twice. */
int in_first_context(const host_program *p, int device);

/* What a kernel is launched by in the first context of a device: its function there, which the driver would have to
 * find for each launch of the kernel. */
void *function_of(host_program *p, int i, int device, void *kernel);
