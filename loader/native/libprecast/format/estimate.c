/* The estimate: which of some variants is fastest on a problem, by measurements of others.
 *
 * A problem that was measured is chosen for by its own row. Between measurements, each of the nearest rows says how
 * long every variant would take here, and nearer rows count for more, by variant. precast's
 * loader/contract/format/tuning/estimate.py decides the same, and says why. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tuning.h"

#define NEAREST 20
#define FALL    3
#define NEAR    0.05
#define UNCUT   0.5
#define UNLIKE  4.0
#define LAUNCH  6.0
#define REST    0.3
#define LACKING 1.3

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

static bool measures_any(const struct row *row, const struct text *keys, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    long place = place_of(row->table, keys[i]);
    if (place >= 0 && !isnan(row->times[place])) return true;
  }
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

static double time_of(const struct row *row, struct text key) {
  long place = place_of(row->table, key);
  return place < 0 ? NAN : row->times[place];
}

/* The work of a tiling: an axis that is not cut is work of each tile. */
static double whole_work(const struct tiling *tiling, const int64_t *sizes, size_t count) {
  double found = work(tiling, sizes, count);
  for (size_t i = 0; i < count; ++i)
    if (!tiling->tile[i]) found *= sizes[i] > 1 ? (double)sizes[i] : 1.0;
  return found;
}

/* What is known of the artifacts among the nearest rows. */
struct among {
  const struct text *keys;
  bool *any;                     /* whether it has a time in any of them */
  const struct tiling **tilings; /* NULL: unknown */
  size_t count;
  bool tiled; /* all that have a time */
};

static struct among among_of(struct call *call, const struct row *const *rows, size_t count, const struct text *keys,
                             size_t key_count) {
  struct among among = {.keys = keys, .count = key_count, .tiled = true};
  among.any = take(call, key_count, sizeof *among.any);
  among.tilings = take(call, key_count, sizeof *among.tilings);
  for (size_t n = 0; n < key_count; ++n) {
    for (size_t i = 0; i < count; ++i) {
      long place = place_of(rows[i]->table, keys[n]);
      if (place < 0 || isnan(rows[i]->times[place])) continue;
      among.any[n] = true;
      const struct tiling *tiling = &rows[i]->table->tilings[place];
      if (tiling->known && !among.tilings[n]) among.tilings[n] = tiling;
    }
    among.tiled = among.tiled && (!among.any[n] || among.tilings[n]);
  }
  return among;
}

/* For each artifact: how much its work grows from a row to a problem, as a logarithm. The mean is returned. */
static double growths(const struct row *row, const int64_t *sizes, const struct among *among, double *growth) {
  size_t axes = row->table->axis_count, known = 0;
  double sum = 0;
  for (size_t n = 0; n < among->count; ++n) {
    if (!among->any[n]) continue;
    const struct tiling *tiling = among->tilings[n];
    growth[n] = log(whole_work(tiling, sizes, axes) / whole_work(tiling, row->sizes, axes));
    sum += growth[n], ++known;
  }
  return known ? sum / (double)known : 0;
}

/* What all rows say of an artifact. */
struct estimated {
  double weights;
  double sum; /* of the weighted logarithms of microseconds */
};

/* Adds what a row says of each artifact on a problem that is so far apart. */
static void add_estimates(const struct row *row, const int64_t *sizes, const struct among *among, double apart,
                          double *growth, struct estimated *sums) {
  size_t axes = row->table->axis_count;
  double lacking = INFINITY;
  for (size_t n = 0; n < among->count; ++n) {
    double time = among->any[n] ? time_of(row, among->keys[n]) : NAN;
    if (time < lacking) lacking = time;
  }
  lacking *= LACKING;
  double usual = among->tiled ? growths(row, sizes, among, growth) : 0;
  for (size_t n = 0; n < among->count; ++n) {
    if (!among->any[n]) continue;
    double time = time_of(row, among->keys[n]), distance = apart;
    if (isnan(time)) time = lacking;
    if (among->tiled) {
      const struct tiling *tiling = among->tilings[n];
      double unlike = UNLIKE * (growth[n] - usual), rest = fmax(time - LAUNCH, REST * time);
      distance = sqrt(apart * apart + unlike * unlike);
      time = LAUNCH + rest * whole_work(tiling, sizes, axes) / whole_work(tiling, row->sizes, axes);
    }
    double weight = pow(distance + NEAR, -FALL);
    sums[n].sum += weight * log(time);
    sums[n].weights += weight;
  }
}

/* The weight of each axis in a distance: less for one that no tiling cuts, where there are tilings. */
static void weigh(const struct row *rows, size_t count, double *weights, size_t axes) {
  bool any = false;
  for (size_t i = 0; i < axes; ++i) weights[i] = UNCUT;
  for (size_t i = 0; i < count; ++i)
    for (size_t n = 0; n < rows[i].table->variant_count; ++n) {
      const struct tiling *tiling = &rows[i].table->tilings[n];
      if (!tiling->known) continue;
      for (size_t k = 0; k < axes; ++k)
        if (tiling->tile[k]) weights[k] = 1.0, any = true;
    }
  for (size_t i = 0; i < axes && !any; ++i) weights[i] = 1.0;
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
  size_t count = 0, near_count = 0;
  for (size_t i = 0; i < measured.count; ++i)
    if (has_axes(measured.rows[i].table, axes, axis_count)) rows[count++] = measured.rows[i];
  count = near_rows(rows, count, gpu);
  if (count) qsort(rows, count, sizeof *rows, by_sizes);
  for (size_t i = 1; i < count; ++i)
    if (!by_sizes(&rows[i - 1], &rows[i])) fail(call, PRECAST_CACHE_ERROR, "a problem occurs twice for one GPU");
  double *weights = take(call, axis_count, sizeof *weights);
  weigh(rows, count, weights, axis_count);
  struct ranked *ranked = take(call, count, sizeof *ranked);
  for (size_t i = 0; i < count; ++i) {
    double sum = 0;
    for (size_t n = 0; n < axis_count; ++n) {
      double apart = weights[n] * log2((double)sizes[n] + 1) - weights[n] * log2((double)rows[i].sizes[n] + 1);
      sum += apart * apart;
    }
    ranked[i] = (struct ranked){sqrt(sum), i};
  }
  if (count) qsort(ranked, count, sizeof *ranked, by_distance);
  const struct row *near[NEAREST];
  double apart[NEAREST];
  for (size_t i = 0; i < count && near_count < NEAREST && !(near_count && apart[0] == 0); ++i) {
    struct row *row = &rows[ranked[i].position];
    read_times(call, row);
    if (!measures_any(row, keys, key_count)) continue;
    apart[near_count] = ranked[i].apart, near[near_count++] = row;
  }
  if (!near_count) return -1;
  bool exact = apart[0] == 0;
  struct among among = among_of(call, near, near_count, keys, key_count);
  double *growth = take(call, key_count, sizeof *growth);
  struct estimated *sums = take(call, key_count, sizeof *sums);
  for (size_t i = 0; !exact && i < near_count; ++i) add_estimates(near[i], sizes, &among, apart[i], growth, sums);
  int best = -1;
  double least = INFINITY;
  for (size_t i = 0; i < key_count; ++i) {
    if (!among.any[i]) continue;
    double estimated = exact ? time_of(near[0], keys[i]) : sums[i].sum / sums[i].weights;
    if (best < 0 || estimated < least) best = (int)i, least = estimated;
  }
  const struct row *nearest = near[0];
  for (size_t i = near_count; i-- > 0;)
    if (!isnan(time_of(near[i], keys[best]))) nearest = near[i];
  *reason = reason_of(call, nearest, keys[best], exact, gpu);
  return best;
}
