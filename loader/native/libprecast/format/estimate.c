/* The estimate: which of some variants is fastest on a problem, by measurements of others.
 *
 * A problem that was measured is chosen for by its own row. Between measurements, the times of the rows nearest to it
 * are carried over: each variant's time changes by the work that its tiles are, here and there, and what is then said
 * by nearer rows counts for more. precast's loader/contract/format/estimate.py decides the same. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tuning.h"

#define NEAREST 8
#define FALL    4
#define NEAR    0.05

struct ranked {
  double apart;
  size_t position;
};

static int by_sizes(const void *first, const void *second) {
  const struct row *one = first, *other = second;
  for (size_t i = 0; i < one->table->axis_count; ++i)
    if (one->sizes[i] != other->sizes[i]) return one->sizes[i] < other->sizes[i] ? -1 : 1;
  int found = compare(one->table->gpu, other->table->gpu);
  if (!found) found = one->table->capability.major - other->table->capability.major;
  return found ? found : one->table->capability.minor - other->table->capability.minor;
}

static int by_distance(const void *first, const void *second) {
  const struct ranked *one = first, *other = second;
  if (one->apart != other->apart) return one->apart < other->apart ? -1 : 1;
  return (one->position > other->position) - (one->position < other->position);
}

static bool has_axes(const struct table *table, const struct text *axes, size_t count) {
  if (table->axis_count != count) return false;
  for (size_t i = 0; i < count; ++i)
    if (!equal(table->axes[i], axes[i])) return false;
  return true;
}

/* Where a key stands in a table; -1 where it was not measured. */
static long place_of(const struct table *table, struct text key) {
  for (size_t i = 0; i < table->variant_count; ++i)
    if (equal(table->keys[i], key)) return (long)i;
  return -1;
}

static bool measures_any(const struct table *table, const struct text *keys, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (place_of(table, keys[i]) >= 0) return true;
  return false;
}

/* The rows of GPUs of this name, or, where there is none, of this capability. */
static size_t near_rows(struct row *rows, size_t count, const struct gpu *gpu) {
  size_t found = 0;
  for (int pass = 0; pass < 2 && !found; ++pass)
    for (size_t i = 0; i < count; ++i) {
      const struct table *table = rows[i].table;
      struct version capability = table->capability;
      bool near = pass ? capability.major == gpu->capability.major && capability.minor == gpu->capability.minor
                       : gpu->name && is(table->gpu, gpu->name);
      if (!near) continue;
      struct row moved = rows[i];
      rows[i] = rows[found], rows[found++] = moved;
    }
  return found;
}

/* By how much each of some artifacts falls behind the best of them on a problem, as a logarithm. The work of the tiles
 * counts only where it is known of every artifact. One that has no time in the row counts as the slowest. */
static bool losses(const struct row *row, const int64_t *sizes, const struct text *keys, size_t key_count,
                   const bool *among, double *loss) {
  const struct table *table = row->table;
  bool tiled = true, any = false;
  double best = INFINITY, worst = -INFINITY;
  for (size_t i = 0; i < key_count; ++i) {
    long place = place_of(table, keys[i]);
    if (place >= 0) tiled = tiled && table->tilings[place].known;
  }
  for (size_t i = 0; i < key_count; ++i) {
    long place = among[i] ? place_of(table, keys[i]) : -1;
    loss[i] = NAN;
    if (place < 0) continue;
    const struct tiling *tiling = &table->tilings[place];
    loss[i] = log(row->times[place]) - (tiled ? log(work(tiling, row->sizes, table->axis_count)) : 0.0);
    if (tiled) loss[i] += log(work(tiling, sizes, table->axis_count));
    if (loss[i] < best) best = loss[i];
    if (loss[i] > worst) worst = loss[i];
    any = true;
  }
  for (size_t i = 0; any && i < key_count; ++i) loss[i] = (isnan(loss[i]) ? worst : loss[i]) - best;
  return any;
}

static const char *reason_of(struct call *call, const struct row *row, struct text key, bool exact,
                             const struct gpu *gpu) {
  struct builder builder = {.call = call};
  struct text measured_on = row->table->gpu;
  if (!exact) put(&builder, "estimated from the nearest measurements; the nearest is ");
  put(&builder, "%g us at", row->times[place_of(row->table, key)]);
  for (size_t i = 0; i < row->table->axis_count; ++i)
    put(&builder, " %.*s=%lld", (int)row->table->axes[i].size, row->table->axes[i].data, (long long)row->sizes[i]);
  put(&builder, " on %.*s", (int)measured_on.size, measured_on.data);
  if (gpu->name && !is(measured_on, gpu->name))
    put(&builder, ", which is another GPU than this one: measure here with 'precast tune measure'");
  return built(&builder);
}

int fastest(struct call *call, struct rows measured, const struct text *axes, const int64_t *sizes, size_t axis_count,
            const struct text *keys, size_t key_count, const struct gpu *gpu, const char **reason) {
  struct row *rows = take(call, measured.count, sizeof *rows);
  size_t count = 0;
  for (size_t i = 0; i < measured.count; ++i)
    if (has_axes(measured.rows[i].table, axes, axis_count) && measures_any(measured.rows[i].table, keys, key_count))
      rows[count++] = measured.rows[i];
  count = near_rows(rows, count, gpu);
  if (!count) return -1;
  qsort(rows, count, sizeof *rows, by_sizes);
  struct ranked *ranked = take(call, count, sizeof *ranked);
  for (size_t i = 0; i < count; ++i) {
    double sum = 0;
    for (size_t n = 0; n < axis_count; ++n) {
      double apart = log2((double)sizes[n] + 1) - log2((double)rows[i].sizes[n] + 1);
      sum += apart * apart;
    }
    ranked[i] = (struct ranked){sqrt(sum), i};
  }
  qsort(ranked, count, sizeof *ranked, by_distance);
  const struct row *nearest = &rows[ranked[0].position];
  bool *among = take(call, key_count, sizeof *among), exact = ranked[0].apart == 0;
  double *loss = take(call, key_count, sizeof *loss), *sum = take(call, key_count, sizeof *sum);
  for (size_t i = 0; i < key_count; ++i) {
    long place = place_of(nearest->table, keys[i]);
    among[i] = place >= 0;
    if (exact && among[i]) sum[i] = nearest->times[place];
  }
  for (size_t i = 0; !exact && i < count && i < NEAREST; ++i) {
    double weight = pow(ranked[i].apart + NEAR, -FALL);
    if (!losses(&rows[ranked[i].position], sizes, keys, key_count, among, loss)) continue;
    for (size_t n = 0; n < key_count; ++n) sum[n] += weight * loss[n];
  }
  int best = -1;
  for (size_t i = 0; i < key_count; ++i)
    if (among[i] && (best < 0 || sum[i] < sum[best])) best = (int)i;
  *reason = reason_of(call, nearest, keys[best], exact, gpu);
  return best;
}
