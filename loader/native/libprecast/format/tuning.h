/* Tuning: measured times of variants that differ in tuned keys only. */
#ifndef PRECAST_TUNING_H
#define PRECAST_TUNING_H

#include "index.h"

#define AXES 32

/* How a kernel cuts a problem into tiles, and how many clusters of blocks a GPU runs at once. */
struct tiling {
  bool known;
  int64_t tile[AXES]; /* by the axes of its table; 0: not cut */
  int64_t at_once;
};

struct table {
  struct text gpu;
  struct version capability;
  size_t axis_count, variant_count;
  size_t position;        /* among the tables of the file */
  struct text axes[AXES]; /* sorted */
  struct text *keys;
  const struct tiling *tilings;
};

/* One problem on one GPU. */
struct row {
  const struct table *table;
  const int64_t *sizes; /* by the axes */
  struct text text;     /* of its times */
  size_t position;      /* in its table */
  const double *times;  /* by the keys, in microseconds; NAN: not measured. NULL before read_times() */
};

/* The GPU of the machine. */
struct gpu {
  const char *name; /* NULL: unknown */
  struct version capability;
};

struct rows {
  struct row *rows;
  size_t count;
};

/* The measurements of an op in tables that have any of some artifacts, without times. Fails if one is not valid. */
struct rows read_tuning(struct call *call, const struct op *op, const struct text *keys, size_t wanted);

/* Read and check the times of a row: a table has thousands, and a choice needs those near a problem. */
void read_times(struct call *call, struct row *row);

/* The time of the tiles of a problem, in units of one full wave. */
double work(const struct tiling *tiling, const int64_t *sizes, size_t count);

/* The position of the artifact that should be fastest on a problem, among the keys of some artifacts in the author's
 * order, with the deciding measurement as text in *reason; -1 if nothing was measured. axes are sorted. */
int fastest(struct call *call, struct rows measured, const struct text *axes, const int64_t *sizes, size_t axis_count,
            const struct text *keys, size_t key_count, const struct gpu *gpu, const char **reason);

#endif
