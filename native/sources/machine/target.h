/* Versions, and the targets that device code is built for. */
#ifndef PRECAST_TARGET_H
#define PRECAST_TARGET_H

#include "base.h"

struct version {
  int major, minor;
};

/* The first two numbers of a version; a missing one is 0. */
struct version version_of(struct text text);

bool is_older(struct version one, struct version other);

struct target {
  int major, minor;
  char suffix; /* a, f or 0 */
};

/* false if the text is not a target */
bool parse_target(struct text text, struct target *target);

/* Whether a device of this compute capability runs code for a target, by CUDA's rules. */
bool runs_on(struct target target, struct version capability);

#endif
