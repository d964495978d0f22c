#ifndef PRECAST_KERNEL_H
#define PRECAST_KERNEL_H

#include "table.h"

struct precast_kernel {
  struct arena memory;
  struct precast_table *table;
  const struct artifact *artifact;
  TVMFFISafeCallType entry;
  void *self; /* what the entry gets first: the host program of a cubin */
  const char *op, *key, *config, *signature, *target;
  const char **names; /* of the arguments that a caller passes */
  size_t name_count;
  int device; /* -1: the current one, at the first call */
  int ready;  /* whether it was checked that the device runs it */
};

static inline bool kernel_is_ready(const struct precast_kernel *kernel) {
  return __atomic_load_n(&kernel->ready, __ATOMIC_ACQUIRE);
}

static inline void kernel_set_ready(struct precast_kernel *kernel) {
  __atomic_store_n(&kernel->ready, 1, __ATOMIC_RELEASE);
}

/* Launch; the arguments are those of the signature that a caller passes. */
void launch_kernel(struct call *call, struct precast_kernel *kernel, const precast_value *arguments, size_t count,
                   void *stream);

#endif
