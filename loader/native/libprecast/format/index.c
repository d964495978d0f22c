#include "index.h"

#include <string.h>

#include "fields.h"

#define BLOB_LIMIT     ((int64_t)64 << 20)
#define OP_LIMIT       ((int64_t)256 << 20)
#define MOST_ARTIFACTS 200000 /* of an op */
#define VERSION        1

struct blob read_blob(const struct node *node) {
  known(node, (const char *[]){"sha256", "size", "stored", "encoding", NULL});
  struct node sha256 = at(node, "sha256"), size = at(node, "size"), stored = at(node, "stored");
  struct node encoding = at(node, "encoding");
  return (struct blob){
      .sha256 = formed(&sha256, is_digest, "a SHA-256 digest"),
      .size = (size_t)count_of(&size, BLOB_LIMIT),
      .stored = (size_t)count_of(&stored, BLOB_LIMIT),
      .encoding = one_of(&encoding, (const char *[]){"raw", "zstd", "zstd+dictionary", NULL}),
  };
}

struct host read_host(const struct node *node) {
  known(node, (const char *[]){"arch", "glibc", NULL});
  struct node arch = at(node, "arch"), glibc = at(node, "glibc");
  return (struct host){
      .arch = one_of(&arch, (const char *[]){"x86_64", "aarch64", NULL}),
      .glibc = version_of(formed(&glibc, is_glibc, "a glibc version")),
  };
}

struct version version_of(struct text text) {
  int numbers[2] = {0, 0}, place = 0;
  bool sound = true;
  for (size_t i = 0; i < text.size && place < 2; ++i) {
    char c = text.data[i];
    if (c == '.') {
      if (!sound) numbers[place] = 0;
      ++place, sound = true;
    } else if (c < '0' || c > '9' || numbers[place] > 100000000) {
      sound = false;
    } else {
      numbers[place] = numbers[place] * 10 + (c - '0');
    }
  }
  if (place < 2 && !sound) numbers[place] = 0;
  return (struct version){numbers[0], numbers[1]};
}

/* Fails for a file of another format or another version. */
static void check_version(const struct node *root, const char *expected) {
  struct node format = at(root, "format"), version = at(root, "version");
  struct text name = string(&format);
  if (!is(name, expected)) refuse(&format, "%s is not '%s'", quoted(root->call, name), expected);
  const struct json *value = version.value;
  if (!value || (value->kind != JSON_INT && value->kind != JSON_BIG)) count_of(&version, 0); /* fails */
  double number = value->kind == JSON_INT ? (double)value->number : value->real;
  if (number == VERSION) return;
  root->call->has_remedy = true;
  fail(root->call, PRECAST_CACHE_ERROR, "the cache has format version %.0f; this libprecast reads version %d: %s",
       number, VERSION, number > VERSION ? "upgrade libprecast" : "rebuild the cache");
}

static struct runtime read_runtime(const struct node *node) {
  known(node, (const char *[]){"soname", "host", "blob", NULL});
  struct node soname = at(node, "soname"), host = at(node, "host"), blob = at(node, "blob");
  return (struct runtime){
      .soname = formed(&soname, is_soname, "the name of a runtime library"),
      .host = read_host(&host),
      .blob = read_blob(&blob),
  };
}

static struct op_entry read_entry(const struct node *node) {
  known(node, (const char *[]){"sha256", "size", "artifacts", NULL});
  struct node sha256 = at(node, "sha256"), size = at(node, "size"), artifacts = at(node, "artifacts");
  return (struct op_entry){
      .sha256 = formed(&sha256, is_digest, "a SHA-256 digest"),
      .size = (size_t)count_of(&size, OP_LIMIT),
      .artifacts = (size_t)count_of(&artifacts, MOST_ARTIFACTS),
  };
}

const struct index *read_index(struct call *call, struct text data) {
  struct node root = root_of(call, parse_json(call, data));
  struct index *index = take(call, 1, sizeof *index);
  object(&root, UINT32_MAX);
  check_version(&root, "precast-cache");
  known(&root, (const char *[]){"format", "version", "name", "toolchain", "runtimes", "dictionary", "ops", NULL});
  struct node ops = at(&root, "ops"), name = at(&root, "name"), toolchain = at(&root, "toolchain");
  struct node runtimes = at(&root, "runtimes"), dictionary = at(&root, "dictionary");
  object(&ops, 100000);
  for (size_t i = 0; i < ops.value->size; ++i) {
    struct node one = entry(&ops, i);
    read_entry(&one);
    if (!is_op_name(one.name)) refuse(&one, "not the name of an op");
  }
  index->ops = ops.value;
  index->name = formed(&name, is_cache_name, "a cache name");
  object(&toolchain, 256);
  for (size_t i = 0; i < toolchain.value->size; ++i) {
    struct node one = entry(&toolchain, i);
    string(&one);
  }
  index->toolchain = toolchain.value;
  list(&runtimes, RUNTIMES);
  for (; index->runtime_count < runtimes.value->size; ++index->runtime_count) {
    struct node runtime = item(&runtimes, index->runtime_count);
    index->runtimes[index->runtime_count] = read_runtime(&runtime);
  }
  if (!dictionary.value) refuse(&dictionary, "missing");
  index->has_dictionary = dictionary.value->kind != JSON_NULL;
  if (index->has_dictionary) index->dictionary = read_blob(&dictionary);
  return index;
}

bool op_entry_of(struct call *call, const struct index *index, struct text op, struct op_entry *entry) {
  struct node node = root_of(call, find(index->ops, op));
  if (node.value) *entry = read_entry(&node);
  return node.value;
}

static struct json config_value(const struct node *node) {
  struct json value;
  const char *why = plain_value(node->call, node->value, &value);
  if (why) refuse(node, "%s", why);
  return value;
}

static struct key read_key(const struct node *node) {
  known(node, (const char *[]){"name", "type", "tuned", "default", "choices", NULL});
  struct node name = at(node, "name"), type = at(node, "type"), tuned = at(node, "tuned");
  struct node otherwise = at(node, "default"), choices = at(node, "choices");
  struct key key = {
      .name = formed(&name, is_name, "a config key"),
      .type = formed(&type, is_key_type, "a type of config value"),
      .tuned = truth(&tuned),
      .has_default = otherwise.value,
  };
  if (otherwise.value) key.otherwise = config_value(&otherwise);
  if (choices.value) {
    list(&choices, 1024);
    struct json *values = take(node->call, choices.value->size, sizeof *values);
    for (size_t i = 0; i < choices.value->size; ++i) {
      struct node one = item(&choices, i);
      values[i] = config_value(&one);
    }
    key.choices = values, key.choice_count = choices.value->size;
  }
  return key;
}

/* A key identifies an artifact, so no two artifacts may have the same key. */
static void refuse_repeats(const struct node *rows) {
  struct member *keys = take(rows->call, rows->value->size, sizeof *keys);
  size_t count = 0, slots = 16;
  while (slots < 2 * (size_t)rows->value->size) slots *= 2;
  uint32_t *table = take(rows->call, slots, sizeof *table);
  for (size_t i = 0; i < rows->value->size; ++i) {
    const struct json *key = find(&rows->value->items[i], TEXT("key"));
    if (!key || key->kind != JSON_TEXT) continue;
    uint64_t hash = 1469598103934665603u;
    for (size_t n = 0; n < key->size; ++n) hash = (hash ^ (unsigned char)key->data[n]) * 1099511628211u;
    size_t slot = hash & (slots - 1);
    for (; table[slot]; slot = (slot + 1) & (slots - 1))
      if (equal(keys[table[slot] - 1].name, json_text(key))) {
        struct node row = item(rows, i), place = at(&row, "key");
        refuse(&place, "the key occurs twice");
      }
    keys[count++].name = json_text(key);
    table[slot] = (uint32_t)count;
  }
}

const struct op *read_op(struct call *call, struct text data, struct text name) {
  struct node root = root_of(call, parse_json(call, data));
  struct op *op = take(call, 1, sizeof *op);
  object(&root, UINT32_MAX);
  check_version(&root, "precast-op");
  known(&root, (const char *[]){"format", "version", "op", "doc", "keys", "artifacts", "tuning", NULL});
  struct node own = at(&root, "op"), doc = at(&root, "doc"), keys = at(&root, "keys");
  struct node rows = at(&root, "artifacts"), tuning = at(&root, "tuning");
  if (!equal(string(&own), name)) refuse(&own, "this is not the file of '%s'", terminated(call, name));
  list(&rows, MOST_ARTIFACTS);
  for (size_t i = 0; i < rows.value->size; ++i) {
    struct node one = item(&rows, i);
    object(&one, UINT32_MAX);
  }
  refuse_repeats(&rows);
  list(&keys, 256);
  struct key *made = take(call, keys.value->size, sizeof *made);
  for (size_t i = 0; i < keys.value->size; ++i) {
    struct node one = item(&keys, i);
    made[i] = read_key(&one);
  }
  if (doc.value) string(&doc);
  if (tuning.value) {
    list(&tuning, 100000);
    for (size_t i = 0; i < tuning.value->size; ++i) {
      struct node one = item(&tuning, i);
      object(&one, UINT32_MAX);
    }
  }
  op->name = string(&own), op->keys = made, op->key_count = keys.value->size;
  op->rows = rows.value, op->tuning = tuning.value;
  return op;
}

const struct runtime *runtime_for(const struct index *index, struct text arch) {
  for (size_t i = 0; i < index->runtime_count; ++i)
    if (equal(index->runtimes[i].host.arch, arch)) return &index->runtimes[i];
  return NULL;
}
