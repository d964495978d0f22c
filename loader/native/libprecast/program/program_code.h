/* Program code: a signature and a host program as the bytes that loader/native/host_program runs. */
#ifndef PRECAST_PROGRAM_CODE_H
#define PRECAST_PROGRAM_CODE_H

#include "artifact.h"

/* The code of a cubin's host program, for an op whose name errors of calls have. Fails where the signature has what
 * host programs cannot take. */
struct text program_code(struct call *call, struct text op, const struct artifact *artifact);

#endif
