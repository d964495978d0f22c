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

/* Numbers with commas between them as a list, with null for one that is left out; NULL where other characters occur. */
static const struct json *list_of(struct call *call, struct text text) {
  char *list = take(call, text.size + 2, sizeof "null"),
       *out = list; /* of commas alone: a null more than commas, and two brackets */
  bool empty = true;
  *out++ = '[';
  for (size_t i = 0; i <= text.size; ++i) {
    char c = i < text.size ? text.data[i] : ',';
    if (c == ',') {
      if (empty) memcpy(out, "null", 4), out += 4;
      if (i < text.size) *out++ = c;
      empty = true;
    } else if (c && strchr("0123456789.eE+-", c)) {
      *out++ = c, empty = false;
    } else {
      return NULL;
    }
  }
  *out++ = ']';
  return parse_json(call, (struct text){list, (size_t)(out - list)});
}

/* A row is a text, such as "4096,300: 12.5,,7.25": sizes, and times, which are read when they are needed. */
static void read_row(const struct node *node, const struct table *table, const size_t *order, struct row *row) {
  struct text text = string(node), sizes = text, times = TEXT("");
  for (size_t i = 0; i + 1 < text.size; ++i)
    if (text.data[i] == ':' && text.data[i + 1] == ' ') {
      sizes.size = i, times = (struct text){text.data + i + 2, text.size - i - 2};
      break;
    }
  const struct json *problem = list_of(node->call, sizes);
  if (!problem) refuse(node, "expected a whole number for each size");
  if (problem->size != table->axis_count) refuse(node, "expected a size for each axis and a time for each variant");
  int64_t *sorted = take(node->call, table->axis_count, sizeof *sorted);
  for (size_t n = 0; n < table->axis_count; ++n) {
    const struct json *size = &problem->items[n];
    if (size->kind != JSON_INT || size->number < 0) refuse(node, "expected a whole number for each size");
    sorted[order[n]] = size->number;
  }
  *row = (struct row){.table = table, .sizes = sorted, .text = times, .position = (size_t)node->position};
}

static _Noreturn void refuse_row(struct call *call, const struct row *row, const char *what) {
  fail(call, PRECAST_CACHE_ERROR, "%s in 'tuning[%zu].rows[%zu]'", what, row->table->position, row->position);
}

void read_times(struct call *call, struct row *row) {
  if (row->times) return;
  static const char *const positive = "expected a positive number of microseconds for each time";
  const struct json *times = list_of(call, row->text);
  size_t count = row->table->variant_count;
  if (!times) refuse_row(call, row, positive);
  if (times->size != count) refuse_row(call, row, "expected a size for each axis and a time for each variant");
  double *microseconds = take(call, count, sizeof *microseconds);
  bool any = false;
  for (size_t n = 0; n < count; ++n) {
    const struct json *time = &times->items[n];
    double value = time->kind == JSON_INT ? (double)time->number : time->kind == JSON_REAL ? time->real : 0;
    bool known = time->kind != JSON_NULL;
    if (known && !(value > 0 && value <= LONGEST)) refuse_row(call, row, positive);
    microseconds[n] = known ? value : NAN;
    any = any || known;
  }
  if (!any) refuse_row(call, row, "no variant has a time: leave the problem out");
  row->times = microseconds;
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
static struct table *read_table(const struct node *node, size_t *order) {
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
    struct table *table = read_table(&one, order);
    table->position = i;
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
