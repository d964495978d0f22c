/* The launch of an author's plan, as the code of a host program. */
#ifndef PRECAST_PLAN_CODE_H
#define PRECAST_PLAN_CODE_H

#include "program_writer.h"

void put_plan(struct writer *writer);

#endif
