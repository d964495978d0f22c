/* By problem: the variant that measurements favour for given sizes, among those that serve a request. Measurements
 * decide only where otherwise the author's order would: among variants of one cache, target and kind that have the
 * same outputs and write their dtypes alike. */
#include <string.h>

#include "resolve.h"
#include "tuning.h"

struct choosing {
  const struct op *op;
  const struct text *axes, *keys;
  const int64_t *sizes;
  size_t axis_count, key_count;
  struct gpu gpu;
  const char **reason;
  int best;
};

static void choose(struct call *call, void *argument) {
  struct choosing *one = argument;
  struct rows rows = read_tuning(call, one->op, one->keys, one->key_count);
  one->best =
      fastest(call, rows, one->axes, one->sizes, one->axis_count, one->keys, one->key_count, &one->gpu, one->reason);
}

static bool is_peer(const struct candidate *one, const struct candidate *first) {
  struct target a = one->artifact.target, b = first->artifact.target;
  return one->outputs == first->outputs && one->literal == first->literal && one->cache == first->cache &&
         a.major == b.major && a.minor == b.minor && a.suffix == b.suffix &&
         one->artifact.object == first->artifact.object;
}

void choose_by_problem(struct call *call, struct resolution *resolution, const struct op *op) {
  const struct json *problem = resolution->request->problem;
  struct candidate *accepted = resolution->accepted;
  size_t count = 0, *peers = take(call, resolution->accepted_count, sizeof *peers);
  struct text *keys = take(call, resolution->accepted_count, sizeof *keys),
              *axes = take(call, problem->size, sizeof *axes);
  int64_t *sizes = take(call, problem->size, sizeof *sizes);
  for (size_t i = 0; i < resolution->accepted_count; ++i) {
    bool first_of_variant = i == 0 || accepted[i].of_variant != accepted[i - 1].of_variant;
    if (!first_of_variant || !is_peer(&accepted[i], &accepted[0])) continue;
    keys[count] = accepted[i].artifact.key;
    peers[count++] = i;
  }
  for (size_t i = 0; i < problem->size; ++i) {
    axes[i] = problem->members[i].name;
    sizes[i] = problem->members[i].value.number;
  }
  struct choosing choosing = {.op = op,
                              .axes = axes,
                              .keys = keys,
                              .sizes = sizes,
                              .axis_count = problem->size,
                              .key_count = count,
                              .gpu = {name_of_device(&resolution->machine), resolution->machine.capability},
                              .reason = &resolution->measured};
  if (!attempt(call, choose, &choosing)) {
    if (call->status != PRECAST_CACHE_ERROR) fail_again(call);
    put(&resolution->notes, "  note: the measurements of the cache were left out: %s%s\n", call->message,
        call->has_remedy ? "" : ": build the cache again, or reinstall it");
    return;
  }
  if (choosing.best < 0) {
    put(&resolution->notes,
        "  note: the cache has no measurement for a problem of these sizes on such a GPU, so the author's"
        " order decided: measure with 'precast bench', add with 'precast tune apply'\n");
    return;
  }
  struct candidate chosen = accepted[peers[choosing.best]];
  memmove(accepted + 1, accepted, peers[choosing.best] * sizeof *accepted);
  accepted[0] = chosen;
}
