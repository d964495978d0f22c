/* Lookups: the line of a table that answers a request. A request is found by its values, however its JSON is written.
 */
#include "table.h"

#define ADD  "add the request to the file that 'precast native CACHE --requests FILE' read, and run that again"
#define ROOM 30 /* ops that an error lists */

/* Whether a listed problem has the axes of a requested one, and no size that is smaller. */
static bool covers(const struct json *one, const struct json *asked) {
  if (one->size != asked->size) return false;
  for (size_t i = 0; i < one->size; ++i)
    if (!equal(one->members[i].name, asked->members[i].name) ||
        one->members[i].value.number < asked->members[i].value.number)
      return false;
  return true;
}

static double volume(const struct json *problem) {
  double product = 1;
  for (size_t i = 0; i < problem->size; ++i) product *= (double)problem->members[i].value.number + 1;
  return product;
}

static bool differs(const struct json *config, const struct member *key) {
  const struct json *value = find(config, key->name);
  return !value || !same(value, &key->value);
}

/* The number of keys in which two configs differ; with a builder, their names. */
static size_t differing(const struct json *config, const struct json *asked, struct builder *names) {
  size_t count = 0;
  for (int turn = 0; turn < 2; ++turn) { /* the keys of the first, then those that only the second has */
    const struct json *one = turn ? asked : config, *other = turn ? config : asked;
    for (size_t i = 0; i < one->size; ++i) {
      const struct member *key = &one->members[i];
      if (turn ? find(other, key->name) != NULL : !differs(other, key)) continue;
      if (names) put(names, count ? ", %s" : "%s", quoted(names->call, key->name));
      ++count;
    }
  }
  return count;
}

_Noreturn static void unknown_op(struct call *call, const struct precast_table *table, struct text op) {
  struct builder ops = {.call = call};
  for (size_t i = 0, count = 0; i < table->line_count && count < ROOM; ++i) {
    if (i && equal(table->lines[i].op, table->lines[i - 1].op)) continue;
    put(&ops, count++ ? ", " : "");
    put_text(&ops, table->lines[i].op);
  }
  fail(call, PRECAST_OP_NOT_FOUND,
       "%s/" TABLE " has no request for op %s; it has requests for: %s. To use another, " ADD, table->path,
       quoted(call, op), ops.size ? built(&ops) : "none");
}

static const char *shown(struct call *call, const struct json *value) {
  size_t most = 400;
  struct text text = value->source;
  return format(call, "%.*s%s", (int)(text.size < most ? text.size : most), text.data, text.size > most ? "..." : "");
}

_Noreturn static void unknown_request(struct call *call, const struct precast_table *table,
                                      const struct line *request) {
  const struct line *nearest = NULL;
  size_t least = SIZE_MAX;
  struct builder names = {.call = call};
  for (size_t i = 0; i < table->line_count; ++i) {
    const struct line *line = &table->lines[i];
    size_t apart = equal(line->op, request->op) ? 2 * differing(line->config, request->config, NULL) : SIZE_MAX;
    if (apart < SIZE_MAX && !line->problem != !request->problem) ++apart;
    if (apart <= least && apart < SIZE_MAX)
      nearest = line, least = apart; /* of equal ones the last: the largest problem */
  }
  if (!nearest) unknown_op(call, table, request->op);
  const char *op = terminated(call, request->op), *config = shown(call, request->config);
  if (differing(nearest->config, request->config, &names))
    fail(call, PRECAST_VARIANT_NOT_FOUND,
         "%s/" TABLE " has no request %s %s: the nearest has the config %s, which differs in %s. To use another, " ADD,
         table->path, op, config, shown(call, nearest->config), built(&names));
  fail(call, PRECAST_VARIANT_NOT_FOUND,
       "%s/" TABLE " has no request %s %s %s %s: the nearest has %s %s. To use another, " ADD, table->path, op, config,
       request->problem ? "for a problem as large as" : "without a problem",
       request->problem ? shown(call, request->problem) : "", nearest->problem ? "the problem" : "no problem",
       nearest->problem ? shown(call, nearest->problem) : "");
}

const struct line *line_for(struct call *call, const struct precast_table *table, const struct line *request) {
  const struct line *best = NULL;
  for (size_t i = 0; i < table->line_count; ++i) {
    const struct line *line = &table->lines[i];
    if (!equal(line->op, request->op) || !same(line->config, request->config)) continue;
    if (!line->problem || !request->problem) {
      if (line->problem == request->problem) return line;
      continue;
    }
    if (same(line->problem, request->problem)) return line;
    if (covers(line->problem, request->problem) && (!best || volume(line->problem) < volume(best->problem)))
      best = line;
  }
  if (!best) unknown_request(call, table, request);
  return best;
}
