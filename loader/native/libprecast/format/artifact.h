/* Artifacts: one compiled variant each, and the targets that they are built for. */
#ifndef PRECAST_ARTIFACT_H
#define PRECAST_ARTIFACT_H

#include "fields.h"
#include "index.h"

struct target {
  int major, minor;
  char suffix; /* a, f or 0 */
};

struct artifact {
  struct text key, target_name, symbol;
  const struct json *config, *signature;
  const struct json *evidence, *needs, *speed, *program; /* may be NULL */
  struct target target;
  bool object, has_host;
  struct host host;
  struct blob blob;
  int64_t rank;
};

/* The artifact at a position of an op. */
struct artifact read_artifact(struct call *call, const struct op *op, size_t position);

/* false if the text is not a target */
bool parse_target(struct text text, struct target *target);
/* Whether a device of this compute capability runs code for a target, by CUDA's rules. */
bool runs_on(struct target target, struct version capability);
/* Lower is better, among targets that run on one device: exact, family, plain; then the newest. */
int target_rank(struct target target);

/* Fails unless the node is a valid signature. */
void check_signature(const struct node *node);

#endif
