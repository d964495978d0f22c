/* Libraries: the checked bytes of an artifact, opened by the dynamic linker without a file on any disk. */
#ifndef PRECAST_LIBRARY_H
#define PRECAST_LIBRARY_H

#include "cache.h"

/* The address of an artifact's entry, in its library, which is opened after the runtime library that it needs. */
void *open_entry(struct call *call, struct cache *cache, const struct artifact *artifact);

#endif
