#include "resolve.h"

#include <stdlib.h>
#include <string.h>

#define OF_ONE_CONFIG 4096 /* artifacts that agree in every key that is not tuned: all are judged for a request */
#define JUDGED        1000 /* artifacts that an explanation judges: those whose configs are nearest */
#define DIFFERING     256  /* keys of an op */

/* A source is an op of one cache, with a request in the terms of its keys. */
struct source {
  struct precast_caches *caches;
  const struct request *request;
  size_t cache;
  const struct op *op;
  struct requirements required;
  struct resolution *resolution;
  size_t position;
  bool full;
};

static void list_op(struct call *call, void *argument) {
  struct source *source = argument;
  struct cache *cache = &source->caches->caches[source->cache];
  source->op = op_of(call, cache, source->request->op);
}

static void require(struct call *call, void *argument) {
  struct source *source = argument;
  const struct request *request = source->request;
  source->required =
      requirements_of(call, request->op, source->op->keys, source->op->key_count, request->config, request->verified);
}

/* A quick test of a row that is not read yet. It is false only for rows that the rules would refuse. */
static bool may_serve(const struct source *source, const struct json *row) {
  const struct json *config = find(row, TEXT("config")), *name = find(row, TEXT("target"));
  const struct machine *machine = &source->resolution->machine;
  struct target target;
  for (size_t i = 0; i < source->required.count; ++i)
    if (!matches(&source->required, i, config)) return false;
  return !name || name->kind != JSON_TEXT || !machine->has_capability || !parse_target(json_text(name), &target) ||
         runs_on(target, machine->capability);
}

static const struct json *config_of(const struct source *source, size_t row) {
  return find(&source->op->rows->items[row], TEXT("config"));
}

static void bound(struct call *call, void *argument) {
  const struct source *source = argument;
  const struct requirements *required = &source->required;
  size_t count = 0;
  for (size_t row = 0; row < source->op->rows->size && source->op->rows->size > OF_ONE_CONFIG; ++row) {
    bool agrees = true;
    for (size_t i = 0; agrees && i < required->count; ++i)
      agrees = required->keys[i].tuned || matches(required, i, config_of(source, row));
    count += agrees;
  }
  if (count > OF_ONE_CONFIG)
    fail(call, PRECAST_CACHE_ERROR,
         "op %s has %zu artifacts of one config, more than the %d that a loader judges: build fewer tuned variants",
         quoted(call, source->request->op), count, OF_ONE_CONFIG);
}

/* Whether to judge each row of a source for an explanation: all of a few, else those whose configs differ least. */
static const bool *nearest(struct call *call, const struct source *source) {
  size_t rows = source->op->rows->size, left = JUDGED, least = 0, counts[DIFFERING + 1] = {0};
  bool *judged = take(call, rows, sizeof *judged);
  uint16_t *differing = take(call, rows, sizeof *differing);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < source->required.count; ++i)
      differing[row] += !matches(&source->required, i, config_of(source, row));
    ++counts[differing[row]];
  }
  if (left < counts[0]) left = counts[0]; /* all that may serve */
  while (least < DIFFERING && counts[least] < left) left -= counts[least++];
  for (size_t row = 0; row < rows; ++row) {
    judged[row] = differing[row] < least || (differing[row] == least && left);
    if (differing[row] == least && left) --left;
  }
  return judged;
}

static void judge(struct call *call, void *argument) {
  struct source *source = argument;
  struct resolution *resolution = source->resolution;
  struct candidate candidate = {.cache = source->cache, .artifact = read_artifact(call, source->op, source->position)};
  const struct index *index = source->caches->caches[source->cache].index;
  candidate.why =
      objections(call, &candidate.artifact, &source->required, index, &resolution->machine, &candidate.reasons);
  if (candidate.why) {
    for (size_t i = 0; i < source->required.count; ++i)
      candidate.differing += !matches(&source->required, i, candidate.artifact.config);
    resolution->rejected[resolution->rejected_count++] = candidate;
    return;
  }
  candidate.literal = literal(&source->required, candidate.artifact.config);
  candidate.why = slower(call, &candidate.artifact, &resolution->machine);
  resolution->accepted[resolution->accepted_count++] = candidate;
}

static int order(int64_t one, int64_t other) { return (one > other) - (one < other); }

/* The preferred candidate comes first: dtypes as the request writes them; exact, family, plain target; the caches'
 * order; the author's order; an object before a cubin; the artifact's key. */
static int by_rules(const struct candidate *one, const struct candidate *other) {
  const struct artifact *a = &one->artifact, *b = &other->artifact;
  int difference = order(!one->literal, !other->literal);
  if (!difference) difference = order(target_rank(a->target), target_rank(b->target));
  if (!difference) difference = order((int64_t)one->cache, (int64_t)other->cache);
  if (!difference) difference = order(a->rank, b->rank);
  if (!difference) difference = order(!a->object, !b->object);
  return difference ? difference : compare(a->key, b->key);
}

static int compare_by_rules(const void *one, const void *other) { return by_rules(one, other); }

static int by_nearness(const void *first, const void *second) {
  const struct candidate *one = first, *other = second;
  int difference = order((int64_t)one->differing, (int64_t)other->differing);
  if (!difference) difference = order((int64_t)one->reasons, (int64_t)other->reasons);
  return difference ? difference : by_rules(one, other);
}

/* Any order of plain values in which equal ones are neighbours. */
static int by_value(const struct json *one, const struct json *other) {
  int difference = order(one->kind, other->kind);
  if (difference) return difference;
  switch (one->kind) {
  case JSON_BOOL:
    return order(one->truth, other->truth);
  case JSON_INT:
    return order(one->number, other->number);
  case JSON_REAL:
    return (one->real > other->real) - (one->real < other->real);
  case JSON_TEXT:
    return compare(json_text(one), json_text(other));
  case JSON_LIST:
    difference = order(one->size, other->size);
    for (size_t i = 0; !difference && i < one->size; ++i) difference = by_value(&one->items[i], &other->items[i]);
    return difference;
  default:
    return 0;
  }
}

/* A variant is a config and a target. */
static int by_variant(const struct candidate *one, const struct candidate *other) {
  const struct json *a = one->artifact.config, *b = other->artifact.config;
  int difference = compare(one->artifact.target_name, other->artifact.target_name);
  if (!difference) difference = order(a->size, b->size);
  for (size_t i = 0; !difference && i < a->size; ++i) {
    difference = compare(a->members[i].name, b->members[i].name);
    if (!difference) difference = by_value(&a->members[i].value, &b->members[i].value);
  }
  return difference;
}

static int by_variant_and_position(const void *first, const void *second) {
  const struct candidate *one = first, *other = second;
  int difference = by_variant(one, other);
  return difference ? difference : order((int64_t)one->position, (int64_t)other->position);
}

static int by_preference(const void *first, const void *second) {
  const struct candidate *one = first, *other = second;
  int difference = order((int64_t)one->of_variant, (int64_t)other->of_variant);
  if (!difference) difference = order(one->why != NULL, other->why != NULL);
  return difference ? difference : order((int64_t)one->position, (int64_t)other->position);
}

/* The order of variants is the same on every GPU; of the artifacts of one variant, those built for a GPU like this one
 * come first. */
static void prefer(struct candidate *accepted, size_t count) {
  qsort(accepted, count, sizeof *accepted, compare_by_rules);
  for (size_t i = 0; i < count; ++i) accepted[i].position = i;
  qsort(accepted, count, sizeof *accepted, by_variant_and_position);
  for (size_t i = 0; i < count; ++i)
    accepted[i].of_variant =
        i && !by_variant(&accepted[i - 1], &accepted[i]) ? accepted[i - 1].of_variant : accepted[i].position;
  qsort(accepted, count, sizeof *accepted, by_preference);
}

static void note(struct resolution *resolution, const char *what, const char *cache, const char *why) {
  put(&resolution->notes, "  note: cache '%s'%s%s\n", cache, what, why);
}

_Noreturn static void unknown_op(struct call *call, const struct precast_caches *caches, struct text op) {
  size_t count = 0;
  for (size_t i = 0; i < caches->count; ++i) count += caches->caches[i].index->ops->size;
  struct text *words = take(call, count, sizeof *words);
  struct builder searched = {.call = call};
  count = 0;
  for (size_t i = 0; i < caches->count; ++i) {
    const struct json *ops = caches->caches[i].index->ops;
    for (size_t n = 0; n < ops->size; ++n) words[count++] = ops->members[n].name;
    put(&searched, "\n  %s: %u %s", caches->caches[i].path, ops->size, ops->size == 1 ? "op" : "ops");
  }
  fail(call, PRECAST_OP_NOT_FOUND,
       "no cache holds op %s%s\ncaches looked at:%s\nOpen the cache that has the op, or build it", quoted(call, op),
       suggest(call, op, words, count), searched.size ? built(&searched) : "\n  none");
}

struct resolution resolve(struct call *call, struct precast_caches *caches, const struct request *request, bool full) {
  struct resolution resolution = {.request = request, .notes = {.call = call}};
  struct source *sources = take(call, caches->count, sizeof *sources);
  size_t count = 0, rows = 0, refused = 0;
  precast_status status = PRECAST_OK;
  const char *message = NULL;
  for (size_t i = 0; i < caches->count; ++i) {
    struct source *source = &sources[count];
    *source = (struct source){.caches = caches, .request = request, .cache = i, .full = full};
    if (!attempt(call, list_op, source)) {
      if (call->status == PRECAST_OUT_OF_MEMORY) fail_again(call);
      note(&resolution, " was left out: ", terminated(call, caches->caches[i].index->name), call->message);
      status = call->status, message = call->message;
      continue;
    }
    if (source->op) ++count, rows += source->op->rows->size;
  }
  if (!count && message) fail(call, status, "%s", message);
  if (!count) unknown_op(call, caches, request->op);
  message = NULL;
  resolution.nearest = sources[0].op;
  resolution.machine = machine_of(call, &caches->driver, &caches->ffi, request->target, request->device);
  if (rows > count * OF_ONE_CONFIG) rows = count * OF_ONE_CONFIG; /* as many are judged at most */
  resolution.accepted = take(call, rows, sizeof(struct candidate));
  resolution.rejected = take(call, rows, sizeof(struct candidate));
  for (size_t i = 0; i < count; ++i) {
    struct source *source = &sources[i];
    const char *name = terminated(call, caches->caches[source->cache].index->name);
    source->resolution = &resolution;
    if (!attempt(call, require, source) || !attempt(call, bound, source)) {
      if (call->status != PRECAST_WRONG_REQUEST && call->status != PRECAST_CACHE_ERROR) fail_again(call);
      note(&resolution, " was left out: ", name, call->message);
      if (!message) status = call->status, message = call->message;
      ++refused;
      continue;
    }
    const bool *judged = full ? nearest(call, source) : NULL;
    for (source->position = 0; source->position < source->op->rows->size; ++source->position) {
      if (!full && !may_serve(source, &source->op->rows->items[source->position])) continue;
      if (judged && !judged[source->position]) {
        ++resolution.unjudged;
        continue;
      }
      if (attempt(call, judge, source)) continue;
      if (call->status != PRECAST_CACHE_ERROR) fail_again(call);
      note(&resolution, ": an artifact was left out: ", name, call->message);
    }
  }
  if (refused == count) fail(call, status, "%s", message);
  prefer(resolution.accepted, resolution.accepted_count);
  qsort(resolution.rejected, resolution.rejected_count, sizeof(struct candidate), by_nearness);
  if (request->problem && resolution.accepted_count) {
    size_t first = 0;
    while (sources[first].cache != resolution.accepted[0].cache) ++first;
    choose_by_problem(call, &resolution, sources[first].op);
  }
  return resolution;
}
