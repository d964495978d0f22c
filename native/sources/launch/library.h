/* Libraries: the checked bytes of an artifact, opened by the dynamic linker without a file on any disk. */
#ifndef PRECAST_LIBRARY_H
#define PRECAST_LIBRARY_H

#include "table.h"

/* The address of an artifact's entry, in its library, which is opened after the runtime library that it needs. */
void *open_entry(struct call *call, struct precast_table *table, const struct artifact *artifact);

#endif
