/* Cubins: device code, launched by its host program. */
#ifndef PRECAST_CUBIN_H
#define PRECAST_CUBIN_H

#include "table.h"

/* The opened host program of an artifact, which host_program_call launches. It is never closed. */
void *open_program(struct call *call, struct precast_table *table, const struct artifact *artifact);

#endif
