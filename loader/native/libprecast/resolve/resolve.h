/* Resolution: which artifact serves a request on this machine, and why each other one does not. */
#ifndef PRECAST_RESOLVE_H
#define PRECAST_RESOLVE_H

#include "cache.h"
#include "machine.h"

struct request {
  struct text op;
  const struct json *config, *problem; /* problem may be NULL */
  const char *target;
  int device; /* -1: the current one */
  bool verified;
};

struct candidate {
  size_t cache;
  struct artifact artifact;
  bool literal;
  size_t reasons, differing;
  size_t place, of_variant; /* of those that serve: its place by the rules, and that of the first of its variant */
  const char *why;          /* the reasons; of one that serves, what may make it slow */
};

struct resolution {
  const struct request *request;
  struct machine machine;
  struct candidate *accepted, *rejected; /* the best first, the nearest first */
  size_t accepted_count, rejected_count;
  const char *measured;     /* what the measurements say of the first one; NULL where they were not asked */
  const struct op *nearest; /* the op in the first cache that has it */
  struct builder notes;
};

/* Every reason why an artifact does not serve, with "; " between them, and how many; NULL where it serves. */
const char *objections(struct call *call, const struct artifact *artifact, const struct requirements *required,
                       const struct index *index, const struct machine *machine, size_t *count);

/* What differs on this machine from what an artifact was built with: what must be so, and what only costs speed. */
const char *unmet(struct call *call, const struct artifact *artifact, const struct machine *machine);
const char *slower(struct call *call, const struct artifact *artifact, const struct machine *machine);

/* The decision; with full, those that do not serve are judged, too. */
struct resolution resolve(struct call *call, struct precast_caches *caches, const struct request *request, bool full);

/* Put that one of the accepted candidates first that measurements favour for the problem of the request. */
void choose_by_problem(struct call *call, struct resolution *resolution, const struct op *op);

/* The whole decision as text; of more candidates than most, the rest is counted. */
void put_resolution(struct builder *builder, const struct precast_caches *caches, const struct resolution *resolution,
                    size_t most);

#endif
