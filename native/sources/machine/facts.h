/* Facts of a device, by the names that an artifact's assumptions have. */
#ifndef PRECAST_FACTS_H
#define PRECAST_FACTS_H

#include "driver.h"

/* A fact of a device: a text; or "", and then it is a number in *number. NULL: the driver does not have it. */
const char *fact_of(struct call *call, struct driver *driver, int device, struct text name, int64_t *number);

#endif
