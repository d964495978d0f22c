/* Caches: a folder of artifacts. No byte of it is used before it was checked against the index. */
#ifndef PRECAST_CACHE_H
#define PRECAST_CACHE_H

#include <pthread.h>

#include "artifact.h"
#include "driver.h"
#include "ffi.h"
#include "sha256.h"

struct zstd {
  const char *path; /* of its library; NULL where the linker finds it */
  void *library;    /* NULL until a blob needs it */
};

/* An op that was read, in memory of its own. */
struct listed {
  struct arena memory;
  const struct op *op;
  struct listed *next;
};

/* Code whose bytes were checked in a cache. */
struct checked {
  struct text sha256; /* in the memory of the cache */
  struct checked *next;
};

struct cache {
  const char *path;
  struct arena memory; /* of the index and the dictionary */
  char digest[DIGEST + 1];
  const struct index *index;
  struct listed *ops;
  struct text dictionary; /* empty until a blob needs it */
  struct checked *checked;
  struct zstd *zstd;
};

/* What precast_open returns. A kernel holds on to it, for the driver and TVM-FFI. */
struct precast_caches {
  int references;
  pthread_mutex_t lock; /* of all below */
  struct arena memory;
  struct cache *caches;
  size_t count;
  struct driver driver;
  struct ffi ffi;
  struct zstd zstd;
};

/* Read the index of a cache whose path is set; pins may be NULL. */
void open_cache(struct call *call, struct cache *cache, const char *pins);

/* An op of a cache, or NULL where it has none of that name. */
const struct op *op_of(struct call *call, struct cache *cache, struct text name);

/* The decoded bytes of a blob, which are exactly those that the index promises. */
struct text read_bytes(struct call *call, struct cache *cache, const struct blob *blob);

/* The bytes of code, which are checked at their first use in a cache, also where another cache had the code opened
 * before; later uses get none, since the code is open then. mark_checked is called once it is. */
struct text bytes_once(struct call *call, struct cache *cache, const struct blob *blob);
void mark_checked(struct call *call, struct cache *cache, struct text sha256);

/* A regular file of a cache, reached without following a link, and no longer than the limit. */
struct text read_file(struct call *call, const char *root, const char *folder, const char *name, size_t limit,
                      bool exact);

/* The bytes of a frame of zstd, which must decode to a size; name is the file's, for errors. */
struct text decode(struct call *call, struct zstd *zstd, struct text stored, size_t size, struct text dictionary,
                   const char *name);

_Noreturn void damaged(struct call *call, const char *path, const char *what);

/* Why an index is not what the pins say, or NULL. Fails where the pins cannot be read. */
const char *refused_by_pins(struct call *call, const char *pins, struct text name, const char *digest);

#endif
