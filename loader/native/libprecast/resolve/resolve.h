/* Resolution: which artifact serves a request on this machine, and why each other one does not. */
#ifndef PRECAST_RESOLVE_H
#define PRECAST_RESOLVE_H

#include "config.h"
#include "cache.h"
#include "machine.h"

struct request {
  struct text op;
  const struct json *config, *problem; /* problem may be NULL */
  const char *target;
  int device; /* -1: the current one */
  enum verified verified;
};

struct candidate {
  size_t cache;
  struct artifact artifact;
  bool literal;
  size_t reasons, differing;
  size_t position, of_variant; /* of one that serves: its position by the rules, and that of the first of its variant */
  const char *why;             /* the reasons; of one that serves, why it may be slower */
};

struct resolution {
  const struct request *request;
  struct machine machine;
  struct candidate *accepted, *rejected; /* the best first, the nearest first */
  size_t accepted_count, rejected_count;
  size_t unjudged;          /* further candidates, whose configs differ more */
  const char *measured;     /* the measurement that decided; NULL without one */
  const struct op *nearest; /* the op in the first cache that has it */
  struct builder notes;
};

/* The reasons why an artifact does not serve, joined by "; ", and their number; NULL if it serves. */
const char *objections(struct call *call, const struct artifact *artifact, const struct requirements *required,
                       const struct index *index, const struct machine *machine, size_t *count);

/* The facts of this machine that differ from those that an artifact assumes: in needs, and in speed. */
const char *unmet(struct call *call, const struct artifact *artifact, const struct machine *machine);
const char *slower(struct call *call, const struct artifact *artifact, const struct machine *machine);

/* The decision; with full, also about candidates that cannot serve. */
struct resolution resolve(struct call *call, struct precast_caches *caches, const struct request *request, bool full);

/* Move the accepted candidate to the front that is fastest for the problem of the request, by measurements. */
void choose_by_problem(struct call *call, struct resolution *resolution, const struct op *op);

/* The decision as text, with at most most candidates; the others are counted. */
void put_resolution(struct builder *builder, const struct precast_caches *caches, const struct resolution *resolution,
                    size_t most);

#endif
