#include "tuning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST  1e12 /* microseconds: eleven days */
#define VARIANTS 10000
#define ROWS     40000 /* of all tables of an op */
#define BY_WAVES 0.6   /* the share of a kernel's time that depends on whole waves of tiles */

struct growing {
  struct call *call;
  struct row *rows;
  size_t count, room;
};

static struct row *add_row(struct growing *growing) {
  if (growing->count == growing->room) {
    size_t room = growing->room ? growing->room * 2 : 64;
    struct row *rows = take(growing->call, room, sizeof *rows);
    if (growing->count) memcpy(rows, growing->rows, growing->count * sizeof *rows);
    growing->rows = rows, growing->room = room;
  }
  return &growing->rows[growing->count++];
}

static bool is_gpu(struct text text) {
  bool sound = text.size > 0 && text.size <= 128;
  for (size_t i = 0; sound && i < text.size; ++i) sound = text.data[i] >= ' ' && text.data[i] <= '~';
  return sound;
}

static void read_machine(const struct node *node, struct table *table) {
  struct node gpu = at(node, "gpu"), capability = at(node, "capability");
  table->gpu = formed(&gpu, is_gpu, "the name of a GPU");
  struct text text = string(&capability);
  size_t dot = 0;
  while (dot < text.size && text.data[dot] != '.') ++dot;
  bool sound = dot >= 1 && dot <= 2 && dot + 2 == text.size && text.data[0] != '0';
  for (size_t i = 0; sound && i < text.size; ++i) sound = i == dot || (text.data[i] >= '0' && text.data[i] <= '9');
  if (!sound) refuse(&capability, "%s is not a compute capability: write it like '9.0'", quoted(node->call, text));
  table->capability = version_of(text);
}

/* The text of a row, such as "4096,300: 12.5,,7.25", as the lists [[4096,300],[12.5,null,7.25]]. */
static const struct json *lists_of_row(const struct node *node) {
  struct text row = string(node);
  char *lists = take(node->call, row.size + 1, sizeof "null"), *out = lists;
  bool between = false, empty = true;
  *out++ = '[', *out++ = '[';
  for (size_t i = 0; i <= row.size; ++i) {
    char c = i < row.size ? row.data[i] : ',';
    if (!between && c == ':' && i + 1 < row.size && row.data[i + 1] == ' ') {
      memcpy(out, "],[", 3), out += 3, ++i, between = empty = true;
    } else if (c == ',') {
      if (empty) memcpy(out, "null", 4), out += 4;
      if (i < row.size) *out++ = c;
      empty = true;
    } else if (strchr("0123456789.eE+-", c) && c) {
      *out++ = c, empty = false;
    } else {
      refuse(node, "expected sizes and times, such as '8,64: 2.5,,3'");
    }
  }
  *out++ = ']', *out++ = ']';
  return parse_json(node->call, (struct text){lists, (size_t)(out - lists)});
}

static double microseconds(const struct node *node, const struct json *time) {
  double value = time->kind == JSON_INT ? (double)time->number : time->kind == JSON_REAL ? time->real : 0;
  if (time->kind == JSON_NULL) return NAN;
  if (!(value > 0 && value <= LONGEST)) refuse(node, "expected a positive number of microseconds for each time");
  return value;
}

static void read_row(const struct node *node, const struct table *table, const size_t *order, struct row *row) {
  const struct json *lists = lists_of_row(node), *problem = &lists->items[0], *times = &lists->items[1];
  if (lists->size != 2 || problem->size != table->axis_count || times->size != table->variant_count)
    refuse(node, "expected a size for each axis and a time for each variant");
  int64_t *sizes = take(node->call, table->axis_count, sizeof *sizes);
  double *microsecond = take(node->call, table->variant_count, sizeof *microsecond);
  for (size_t n = 0; n < table->axis_count; ++n) {
    const struct json *size = &problem->items[n];
    if (size->kind != JSON_INT || size->number < 0) refuse(node, "expected a whole number for each size");
    sizes[order[n]] = size->number;
  }
  bool any = false;
  for (size_t n = 0; n < table->variant_count; ++n) {
    microsecond[n] = microseconds(node, &times->items[n]);
    any = any || !isnan(microsecond[n]);
  }
  if (!any) refuse(node, "no variant has a time: leave the problem out");
  *row = (struct row){table, sizes, microsecond};
}

static int64_t positive(const struct node *node) {
  int64_t size = count_of(node, INT64_MAX);
  if (size < 1) refuse(node, "expected 1 or more");
  return size;
}

static struct tiling read_tiling(const struct node *node, const struct table *table) {
  struct tiling tiling = {.known = true};
  known(node, (const char *[]){"at_once", "tile", NULL});
  struct node tile = at(node, "tile"), at_once = at(node, "at_once");
  object(&tile, AXES);
  for (size_t i = 0; i < tile.value->size; ++i) {
    struct node one = entry(&tile, i);
    int64_t size = positive(&one);
    size_t axis = 0;
    if (!is_name(one.name)) refuse(&one, "not the name of an axis");
    while (axis < table->axis_count && !equal(table->axes[axis], one.name)) ++axis;
    if (axis == table->axis_count) refuse(&one, "the tile has an axis that the problem does not have");
    tiling.tile[axis] = size;
  }
  tiling.at_once = positive(&at_once);
  return tiling;
}

static void add_axis(const struct node *node, struct table *table, struct text name) {
  if (table->axis_count == AXES || !is_name(name))
    refuse(node, "expected a problem: sizes by name, at least 1 and at most 32");
  table->axes[table->axis_count++] = name;
}

static int by_text(const void *one, const void *other) {
  return compare(*(const struct text *)one, *(const struct text *)other);
}

static bool repeats(const struct text *words, size_t count, struct call *call) {
  struct text *sorted = take(call, count, sizeof *sorted);
  if (count) memcpy(sorted, words, count * sizeof *sorted);
  qsort(sorted, count, sizeof *sorted, by_text);
  for (size_t i = 1; i < count; ++i)
    if (equal(sorted[i - 1], sorted[i])) return true;
  return false;
}

/* Measurements with the same axes and the same variants, which differ in tuned keys only. order gets the position of
 * each axis of the file among the sorted ones. Rows are read apart. */
static const struct table *read_table(const struct node *node, size_t *order) {
  struct call *call = node->call;
  struct table *table = take(call, 1, sizeof *table);
  known(node, (const char *[]){"axes", "capability", "gpu", "rows", "variants", NULL});
  struct node axes = at(node, "axes"), variants = at(node, "variants");
  read_machine(node, table);
  list(&axes, AXES);
  for (size_t i = 0; i < axes.value->size; ++i) {
    struct node one = item(&axes, i);
    add_axis(&axes, table, string(&one));
  }
  qsort(table->axes, table->axis_count, sizeof *table->axes, by_text);
  list(&variants, VARIANTS);
  table->keys = take(call, variants.value->size, sizeof *table->keys);
  struct tiling *tilings = take(call, variants.value->size, sizeof *tilings);
  table->variant_count = variants.value->size;
  for (size_t i = 0; i < table->variant_count; ++i) {
    struct node one = item(&variants, i), key = at(known(&one, (const char *[]){"key", "tiling", NULL}), "key");
    struct node tiling = at(&one, "tiling");
    table->keys[i] = formed(&key, is_digest, "an artifact's key");
    if (tiling.value) tilings[i] = read_tiling(&tiling, table);
  }
  table->tilings = tilings;
  if (!table->axis_count || !table->variant_count || repeats(table->axes, table->axis_count, call) ||
      repeats(table->keys, table->variant_count, call))
    refuse(node, "expected at least one axis and one variant, each once");
  for (size_t i = 0; i < table->axis_count; ++i)
    for (order[i] = 0; !equal(table->axes[order[i]], json_text(&axes.value->items[i])); ++order[i]) {
    }
  return table;
}

static bool has_any(const struct table *table, const struct text *keys, size_t count) {
  for (size_t i = 0; i < count; ++i)
    for (size_t n = 0; n < table->variant_count; ++n)
      if (equal(table->keys[n], keys[i])) return true;
  return false;
}

struct rows read_tuning(struct call *call, const struct op *op, const struct text *keys, size_t wanted) {
  struct growing growing = {.call = call};
  struct node root = root_of(call, op->tuning), list_node = {call, op->tuning, &root, TEXT("tuning"), -1};
  size_t count = op->tuning ? op->tuning->size : 0, key_count = op->rows->size, listed = 0;
  struct text *known_keys = take(call, key_count, sizeof *known_keys);
  for (size_t i = 0; i < key_count; ++i) {
    const struct json *key = find(&op->rows->items[i], TEXT("key"));
    known_keys[i] = key && key->kind == JSON_TEXT ? json_text(key) : TEXT("");
  }
  qsort(known_keys, key_count, sizeof *known_keys, by_text);
  for (size_t i = 0; i < count; ++i) {
    struct node one = item(&list_node, i);
    size_t order[AXES];
    const struct table *table = read_table(&one, order);
    for (size_t n = 0; n < table->variant_count; ++n)
      if (!bsearch(&table->keys[n], known_keys, key_count, sizeof *known_keys, by_text))
        refuse(&one, "no artifact has the key %s", quoted(call, table->keys[n]));
    struct node rows = at(&one, "rows");
    list(&rows, ROWS - listed);
    listed += rows.value->size;
    if (!has_any(table, keys, wanted)) continue;
    for (size_t n = 0; n < rows.value->size; ++n) {
      struct node row = item(&rows, n);
      read_row(&row, table, order, add_row(&growing));
    }
  }
  return (struct rows){growing.rows, growing.count};
}

double work(const struct tiling *tiling, const int64_t *sizes, size_t count) {
  double tiles = 1;
  for (size_t i = 0; i < count; ++i) {
    if (!tiling->tile[i]) continue;
    int64_t parts = sizes[i] / tiling->tile[i] + (sizes[i] % tiling->tile[i] != 0);
    if (parts > 1) tiles *= (double)parts;
  }
  double at_once = (double)tiling->at_once;
  return BY_WAVES * ceil(tiles / at_once) + (1 - BY_WAVES) * tiles / at_once;
}
