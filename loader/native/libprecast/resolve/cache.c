#include "cache.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct decoding {
  struct cache *cache;
  struct text data, op;
  struct listed *listed;
};

static void decode_index(struct call *call, void *argument) {
  struct decoding *decoding = argument;
  decoding->cache->index = read_index(call, decoding->data);
}

/* Run a reader; its error gets the path of the file. */
static void of_file(struct call *call, const char *path, body *read, struct decoding *decoding) {
  if (attempt(call, read, decoding)) return;
  if (call->status != PRECAST_CACHE_ERROR) fail_again(call);
  fail(call, PRECAST_CACHE_ERROR, "%s: %s. Rebuild or reinstall the cache", path, call->message);
}

void open_cache(struct call *call, struct cache *cache, const char *pins) {
  struct stat facts;
  if (stat(cache->path, &facts) || !S_ISDIR(facts.st_mode))
    fail(call, PRECAST_CACHE_ERROR, "%s is not a folder that can be read: give the folder of a cache", cache->path);
  struct decoding decoding = {.cache = cache};
  decoding.data = read_file(call, cache->path, NULL, "index.json", INDEX_LIMIT, false);
  sha256(decoding.data.data, decoding.data.size, cache->digest);
  const char *path = format(call, "%s/index.json", cache->path);
  of_file(call, path, decode_index, &decoding);
  const char *refused = pins ? refused_by_pins(call, pins, cache->index->name, cache->digest) : NULL;
  if (refused) fail(call, PRECAST_INTEGRITY_ERROR, "%s: %s", path, refused);
}

static void decode_op(struct call *call, void *argument) {
  struct decoding *decoding = argument;
  decoding->listed->op = read_op(call, decoding->data, decoding->op);
}

static void list_op(struct call *call, void *argument) {
  struct decoding *decoding = argument;
  struct cache *cache = decoding->cache;
  struct op_entry entry = {0};
  char digest[DIGEST + 1];
  op_entry_of(call, cache->index, decoding->op, &entry);
  const char *name = format(call, "%s.json", terminated(call, decoding->op));
  const char *path = format(call, "%s/ops/%s", cache->path, name);
  decoding->data = read_file(call, cache->path, "ops", name, entry.size, true);
  sha256(decoding->data.data, decoding->data.size, digest);
  if (!is(entry.sha256, digest)) damaged(call, path, "its digest is not the one in index.json");
  of_file(call, path, decode_op, decoding);
  size_t found = decoding->listed->op->rows->size;
  if (found != entry.artifacts)
    damaged(call, path, format(call, "it lists %zu artifacts, not %zu", found, entry.artifacts));
}

const struct op *op_of(struct call *call, struct cache *cache, struct text name) {
  if (!find(cache->index->ops, name)) return NULL;
  for (struct listed *listed = cache->ops; listed; listed = listed->next)
    if (equal(listed->op->name, name)) return listed->op;
  struct listed *listed = calloc(1, sizeof *listed);
  if (!listed) fail(call, PRECAST_OUT_OF_MEMORY, "there is not enough memory: free some");
  struct decoding decoding = {.cache = cache, .op = name, .listed = listed};
  if (!attempt_in(call, &listed->memory, list_op, &decoding)) {
    free(listed);
    fail_again(call);
  }
  listed->next = cache->ops, cache->ops = listed;
  return listed->op;
}

/* The dictionary, which lives as long as the cache. */
static void keep_dictionary(struct call *call, struct cache *cache) {
  struct text data = read_bytes(call, cache, &cache->index->dictionary);
  struct call lasting = {.memory = &cache->memory, .escape = call->escape};
  cache->dictionary = (struct text){terminated(&lasting, data), data.size};
}

struct text read_bytes(struct call *call, struct cache *cache, const struct blob *blob) {
  const char *name = terminated(call, blob->sha256), *path = format(call, "%s/blobs/%s", cache->path, name);
  char digest[DIGEST + 1];
  struct text data = read_file(call, cache->path, "blobs", name, blob->stored, true);
  if (!is(blob->encoding, "raw")) {
    bool with_dictionary = is(blob->encoding, "zstd+dictionary");
    const struct index *index = cache->index;
    if (with_dictionary && (!index->has_dictionary || is(index->dictionary.encoding, "zstd+dictionary")))
      damaged(call, path, "it needs a dictionary, and the index names no readable one");
    if (with_dictionary && !cache->dictionary.data) keep_dictionary(call, cache);
    data =
        decode(call, cache->zstd, data, blob->size, with_dictionary ? cache->dictionary : (struct text){NULL, 0}, path);
  }
  if (data.size == blob->size) sha256(data.data, data.size, digest);
  if (data.size != blob->size || strcmp(digest, name))
    damaged(call, path, "its content is not what the index promises");
  return data;
}

struct text bytes_once(struct call *call, struct cache *cache, const struct blob *blob) {
  for (struct checked *one = cache->checked; one; one = one->next)
    if (equal(one->sha256, blob->sha256)) return (struct text){NULL, 0};
  return read_bytes(call, cache, blob);
}

void mark_checked(struct call *call, struct cache *cache, struct text sha256) {
  struct call lasting = {.memory = &cache->memory, .escape = call->escape};
  struct checked *one = take(&lasting, 1, sizeof *one);
  *one = (struct checked){sha256, cache->checked};
  cache->checked = one;
}
