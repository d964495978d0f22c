/* Caches: folders of artifacts. Every byte is checked against the index before it is used. */
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

/* What precast_open returns. A kernel keeps it alive, for the driver and TVM-FFI. */
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

/* An op of a cache, or NULL if it has none of that name. */
const struct op *op_of(struct call *call, struct cache *cache, struct text name);

/* The decoded bytes of a blob, checked against the index. */
struct text read_bytes(struct call *call, struct cache *cache, const struct blob *blob);

/* The bytes of code at its first use in a cache, even if another cache opened the same code before; none at later uses,
 * when the code is open. Call mark_checked once it is. */
struct text bytes_once(struct call *call, struct cache *cache, const struct blob *blob);
void mark_checked(struct call *call, struct cache *cache, struct text sha256);

/* A regular file of a cache, reached without following a link, and no longer than the limit. */
struct text read_file(struct call *call, const char *root, const char *folder, const char *name, size_t limit,
                      bool exact);

/* The decoded bytes of a zstd frame, which must have this size; name is the file's, for errors. */
struct text decode(struct call *call, struct zstd *zstd, struct text stored, size_t size, struct text dictionary,
                   const char *name);

_Noreturn void damaged(struct call *call, const char *path, const char *what);

/* Why the pins refuse an index, or NULL. Fails if the pins cannot be read. */
const char *refused_by_pins(struct call *call, const char *pins, struct text name, const char *digest);

#endif
