/* Tables: the folders that 'precast native' makes of a cache. A table says which kernel each request gets, and what
 * each kernel needs of a machine. Every byte beside it is checked by its digest in the table before it is used. */
#ifndef PRECAST_TABLE_H
#define PRECAST_TABLE_H

#include <pthread.h>

#include "fields.h"
#include "machine.h"
#include "sha256.h"

#define TABLE "table.json"
#define AGAIN "make the folder again with 'precast native'"

struct blob {
  struct text sha256;
  size_t size;
};

/* One compiled variant. */
struct artifact {
  struct text key, target_name, symbol;
  struct text arch, soname; /* the host, and the runtime library, of an object; empty for a cubin */
  struct text ffi, cuda;    /* the versions that it was made with; empty where it does not matter */
  struct version glibc;
  struct target target;
  bool object;
  struct blob code, beside; /* beside: the runtime library of an object, the host program of a cubin */
  const struct json *config, *signature, *needs, *speed; /* needs, speed: facts of the GPU; may be NULL */
};

/* A request, with the kernels that serve it: the first one that the machine runs is taken. */
struct line {
  struct text op;
  const struct json *config, *problem, *kernels; /* problem may be NULL; kernels are positions */
};

/* Code whose bytes were checked in this folder. */
struct checked {
  struct text sha256; /* in the memory of the table */
  struct checked *next;
};

/* What precast_open returns. A kernel keeps it alive: it uses the table's memory, the driver and TVM-FFI. */
struct precast_table {
  int references;
  pthread_mutex_t lock; /* of all below */
  struct arena memory;
  const char *path;
  struct artifact *artifacts;
  struct line *lines;
  size_t artifact_count, line_count;
  struct checked *checked;
  struct driver driver;
  struct ffi ffi;
};

/* Read the table of a folder whose path is set. sha256 is the digest that its file must have, or NULL. */
void read_table(struct call *call, struct precast_table *table, const char *sha256);

/* The line that answers a request: that of its op, config and problem; else, of those with this op and config, the one
 * with the smallest problem of which no size is smaller. Fails where there is none. */
const struct line *line_for(struct call *call, const struct precast_table *table, const struct line *request);

/* Fails unless a node is a problem: sizes by name. */
void check_problem(const struct node *node);

/* The bytes of a blob, checked against its digest. */
struct text read_blob(struct call *call, const struct precast_table *table, const struct blob *blob);

/* The bytes of code at its first use from this folder, even if another folder opened the same code before; none at
 * later uses, when the code is open. Call mark_checked once it is. */
struct text bytes_once(struct call *call, const struct precast_table *table, const struct blob *blob);
void mark_checked(struct call *call, struct precast_table *table, struct text sha256);

/* A regular file of the folder, reached without following a link, and no longer than the limit. */
struct text read_file(struct call *call, const char *root, const char *folder, const char *name, size_t limit,
                      bool exact);

/* Why an artifact cannot run on a machine, or NULL. */
const char *objections(struct call *call, const struct artifact *artifact, const struct machine *machine);

/* The facts of this machine that differ from those that an artifact needs, or NULL; whether others cost speed. */
const char *unmet(struct call *call, const struct artifact *artifact, const struct machine *machine);
bool is_slower(struct call *call, const struct artifact *artifact, const struct machine *machine);

#endif
