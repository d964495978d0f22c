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

/* The entry of an op in the root. */
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

/* One op. An op may have thousands of artifacts and a lookup needs a few, so read_artifact parses one at a time. */
struct op {
  struct text name;
  const struct key *keys;
  size_t key_count;
  const struct json *rows, *tuning; /* tuning may be NULL */
};

const struct index *read_index(struct call *call, struct text data);
bool op_entry_of(struct call *call, const struct index *index, struct text op, struct op_entry *entry);
const struct op *read_op(struct call *call, struct text data, struct text name);

struct blob read_blob(const struct node *node);
struct host read_host(const struct node *node);
/* The runtime library for a host, or NULL. */
const struct runtime *runtime_for(const struct index *index, struct text arch);

/* The first two numbers of a version; a missing one is 0. */
struct version version_of(struct text text);

#endif
