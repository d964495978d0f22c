/* The files of a cache: index.json at its root, and one ops/OP.json for each op. docs/format.md has every field. */
#ifndef PRECAST_INDEX_H
#define PRECAST_INDEX_H

#include "config.h"
#include "fields.h"

#define INDEX_LIMIT (16 << 20)
#define RUNTIMES    8

struct blob {
  struct text sha256, encoding;
  size_t size, stored;
};

struct version {
  int major, minor;
};

struct host {
  struct text arch;
  struct version glibc;
};

struct runtime {
  struct host host;
  struct text soname;
  struct blob blob;
};

/* What the root says of an op. */
struct op_entry {
  struct text sha256;
  size_t size, artifacts;
};

struct index {
  struct text name;
  const struct json *toolchain;
  struct runtime runtimes[RUNTIMES];
  size_t runtime_count;
  bool has_dictionary;
  struct blob dictionary;
  const struct json *ops; /* op_entry_of reads one */
};

/* One op. Its artifacts are read when they are looked at: an op may have thousands, and a lookup needs a few. */
struct op {
  struct text name;
  const struct key *keys;
  size_t key_count;
  const struct json *rows, *tuning; /* tuning may be NULL */
  int version;
};

const struct index *read_index(struct call *call, struct text data);
bool op_entry_of(struct call *call, const struct index *index, struct text op, struct op_entry *entry);
const struct op *read_op(struct call *call, struct text data, struct text name);

struct blob read_blob(const struct node *node);
struct host read_host(const struct node *node);
/* The library for a host, or NULL. */
const struct runtime *runtime_for(const struct index *index, struct text arch);

/* The first two numbers of a version; what is not there counts as 0. */
struct version version_of(struct text text);

#endif
