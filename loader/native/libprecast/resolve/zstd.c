/* Frames of zstd, decoded by libzstd.so.1 where a cache has any. */
#include <dlfcn.h>

#include "cache.h"

#define LIBRARY "libzstd.so.1"

struct functions {
  unsigned long long (*content_size)(const void *, size_t);
  size_t (*frame_size)(const void *, size_t);
  void *(*make)(void);
  size_t (*free)(void *);
  size_t (*decode)(void *, void *, size_t, const void *, size_t, const void *, size_t);
  unsigned (*is_error)(size_t);
  const char *(*error)(size_t);
};

static struct functions open_library(struct call *call, struct zstd *zstd) {
  const char *path = zstd->path ? zstd->path : LIBRARY;
  if (!zstd->library) zstd->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!zstd->library)
    fail(
        call, PRECAST_LOAD_ERROR,
        "%s is not installed, and this cache is compressed: install it (on Debian and Ubuntu: apt-get install libzstd1),"
        " or name its path in precast_options",
        path);
  struct functions functions = {
      .content_size = dlsym(zstd->library, "ZSTD_getFrameContentSize"),
      .frame_size = dlsym(zstd->library, "ZSTD_findFrameCompressedSize"),
      .make = dlsym(zstd->library, "ZSTD_createDCtx"),
      .free = dlsym(zstd->library, "ZSTD_freeDCtx"),
      .decode = dlsym(zstd->library, "ZSTD_decompress_usingDict"),
      .is_error = dlsym(zstd->library, "ZSTD_isError"),
      .error = dlsym(zstd->library, "ZSTD_getErrorName"),
  };
  if (!functions.content_size || !functions.frame_size || !functions.make || !functions.free || !functions.decode ||
      !functions.is_error || !functions.error)
    fail(call, PRECAST_LOAD_ERROR, "%s is not zstd's library, or older than 1.4: install libzstd1", path);
  return functions;
}

struct text decode(struct call *call, struct zstd *zstd, struct text stored, size_t size, struct text dictionary,
                   const char *name) {
  struct functions zstd_is = open_library(call, zstd);
  size_t frame = zstd_is.frame_size(stored.data, stored.size);
  if (zstd_is.is_error(frame))
    damaged(call, name, format(call, "it is not readable as zstd (%s)", zstd_is.error(frame)));
  /* A frame states its decoded size, and zstd enforces it: nothing grows past the size in the index. */
  if (zstd_is.content_size(stored.data, stored.size) != size)
    damaged(call, name, "it does not decode to the size the index promises");
  if (frame != stored.size) damaged(call, name, "it is not readable as zstd (bytes follow the frame)");
  char *data = take(call, size ? size : 1, 1);
  void *decoder = zstd_is.make();
  if (!decoder) fail(call, PRECAST_OUT_OF_MEMORY, "there is not enough memory: free some");
  size_t got = zstd_is.decode(decoder, data, size, stored.data, stored.size, dictionary.data, dictionary.size);
  zstd_is.free(decoder);
  if (zstd_is.is_error(got)) damaged(call, name, format(call, "it is not readable as zstd (%s)", zstd_is.error(got)));
  return (struct text){data, got};
}
