/* The file of a table. docs/native.md has every field; native/frozen_table.py writes it. Nothing in it is
 * believed before it was checked: a table may be hostile. */
#include "table.h"

#include <stdlib.h>
#include <string.h>

#define FORMAT         "precast-native"
#define VERSION        1
#define TABLE_LIMIT    (16 << 20)
#define BLOB_LIMIT     ((int64_t)64 << 20)
#define MOST_ARTIFACTS 10000
#define MOST_LINES     100000
#define MOST_KERNELS   64 /* of a line */
#define MOST_ARGUMENTS 256

static struct blob blob_at(const struct node *object, const char *name) {
  struct node node = at(object, name);
  known(&node, (const char *[]){"sha256", "size", NULL});
  struct node sha256 = at(&node, "sha256"), size = at(&node, "size");
  return (struct blob){formed(&sha256, is_digest, "a SHA-256 digest"), (size_t)count_of(&size, BLOB_LIMIT)};
}

static const struct json *facts_at(const struct node *object, const char *name) {
  struct node node = at(object, name);
  if (!node.value) return NULL;
  object_of(&node, 256);
  for (size_t i = 0; i < node.value->size; ++i) {
    struct node one = entry(&node, i);
    bool sound =
        one.value->kind == JSON_INT || (one.value->kind == JSON_TEXT && one.value->size > 0 && one.value->size <= 256);
    if (!sound) refuse(&one, "expected a number or a text");
    if (!is_name(one.name)) refuse(&one, "not the name of a fact");
  }
  return node.value;
}

/* The names and kinds of arguments are used here; the rest of a signature is for the program that reads it. */
static const struct json *signature_at(const struct node *object) {
  struct node node = at(object, "signature"), arguments = at(object_of(&node, UINT32_MAX), "arguments");
  list(&arguments, MOST_ARGUMENTS);
  for (size_t i = 0; i < arguments.value->size; ++i) {
    struct node one = item(&arguments, i), name = at(object_of(&one, UINT32_MAX), "name"), kind = at(&one, "kind");
    string(&name);
    string(&kind);
  }
  return node.value;
}

static struct text version_at(const struct node *object, const char *name) {
  struct node node = at(object, name);
  return node.value ? string(&node) : TEXT("");
}

static struct artifact read_artifact(const struct node *node) {
  static const char *const names[] = {"key",     "config", "target",  "kind",      "blob",  "symbol", "host", "runtime",
                                      "program", "cuda",   "tvm_ffi", "signature", "needs", "speed",  NULL};
  known(node, names);
  struct node key = at(node, "key"), config = at(node, "config"), target = at(node, "target"), kind = at(node, "kind");
  struct node symbol = at(node, "symbol"), host = at(node, "host"), runtime = at(node, "runtime");
  struct artifact artifact = {
      .key = formed(&key, is_digest, "a SHA-256 digest"),
      .config = object_of(&config, 256)->value,
      .target_name = string(&target),
      .object = is(one_of(&kind, (const char *[]){"object", "cubin", NULL}), "object"),
      .code = blob_at(node, "blob"),
      .symbol = formed(&symbol, is_symbol, "a symbol name"),
      .ffi = version_at(node, "tvm_ffi"),
      .cuda = version_at(node, "cuda"),
      .signature = signature_at(node),
      .needs = facts_at(node, "needs"),
      .speed = facts_at(node, "speed"),
  };
  if (!parse_target(artifact.target_name, &artifact.target)) refuse(&target, "not a target");
  if (artifact.object) {
    struct node arch = at(object_of(&host, 2), "arch"), glibc = at(&host, "glibc");
    struct node soname = at(object_of(&runtime, 2), "soname");
    artifact.arch = one_of(&arch, (const char *[]){"x86_64", "aarch64", NULL});
    artifact.glibc = version_of(formed(&glibc, is_glibc, "a glibc version"));
    artifact.soname = formed(&soname, is_soname, "the name of a runtime library");
    artifact.beside = blob_at(&runtime, "blob");
  } else {
    artifact.beside = blob_at(node, "program");
  }
  return artifact;
}

void check_problem(const struct node *node) {
  object_of(node, 16);
  for (size_t i = 0; i < node->value->size; ++i) {
    struct node one = entry(node, i);
    count_of(&one, INT64_MAX);
  }
}

static struct line read_line(const struct node *node, size_t artifacts) {
  known(node, (const char *[]){"op", "config", "problem", "kernels", NULL});
  struct node op = at(node, "op"), config = at(node, "config"), problem = at(node, "problem");
  struct node kernels = at(node, "kernels");
  struct line line = {formed(&op, is_op_name, "the name of an op"), object_of(&config, 256)->value, problem.value,
                      list(&kernels, MOST_KERNELS)->value};
  if (problem.value) check_problem(&problem);
  if (!kernels.value->size) refuse(&kernels, "expected at least one kernel");
  for (size_t i = 0; i < kernels.value->size; ++i) {
    struct node one = item(&kernels, i);
    if (!artifacts) refuse(&one, "there is no kernel");
    count_of(&one, (int64_t)artifacts - 1);
  }
  return line;
}

static void check_version(const struct node *root) {
  struct node format = at(root, "format"), version = at(root, "version");
  struct text name = string(&format);
  if (!is(name, FORMAT)) refuse(&format, "%s is not '" FORMAT "'", quoted(root->call, name));
  int64_t number = count_of(&version, INT64_MAX);
  if (number == VERSION) return;
  root->call->has_remedy = true;
  fail(root->call, PRECAST_CACHE_ERROR, "the table has format version %lld; this libprecast reads version %d: %s",
       (long long)number, VERSION, number > VERSION ? "upgrade libprecast" : AGAIN);
}

struct decoding {
  struct precast_table *table;
  struct text data;
};

static void decode(struct call *call, void *argument) {
  struct decoding *decoding = argument;
  struct precast_table *table = decoding->table;
  struct node root = root_of(call, parse_json(call, decoding->data));
  object_of(&root, UINT32_MAX);
  check_version(&root);
  known(&root, (const char *[]){"format", "version", "kernels", "requests", NULL});
  struct node kernels = at(&root, "kernels"), requests = at(&root, "requests");
  size_t artifacts = list(&kernels, MOST_ARTIFACTS)->value->size, lines = list(&requests, MOST_LINES)->value->size;
  table->artifacts = take(call, artifacts, sizeof *table->artifacts);
  table->lines = take(call, lines, sizeof *table->lines);
  for (; table->artifact_count < artifacts; ++table->artifact_count) {
    struct node one = item(&kernels, table->artifact_count);
    table->artifacts[table->artifact_count] = read_artifact(&one);
  }
  for (; table->line_count < lines; ++table->line_count) {
    struct node one = item(&requests, table->line_count);
    table->lines[table->line_count] = read_line(&one, artifacts);
  }
}

void read_table(struct call *call, struct precast_table *table, const char *sha256_wanted) {
  char digest[DIGEST + 1];
  struct decoding decoding = {table, read_file(call, table->path, NULL, TABLE, TABLE_LIMIT, false)};
  sha256(decoding.data.data, decoding.data.size, digest);
  if (sha256_wanted && strcmp(digest, sha256_wanted))
    fail(call, PRECAST_INTEGRITY_ERROR,
         "%s/" TABLE
         " has the digest %s, not %s: install the folder that this program was made for, or give the new digest",
         table->path, digest, quoted(call, text_of(sha256_wanted)));
  if (attempt(call, decode, &decoding)) return;
  if (call->status != PRECAST_CACHE_ERROR) fail_again(call);
  fail(call, PRECAST_CACHE_ERROR, "%s/" TABLE ": %s%s", table->path, call->message, call->has_remedy ? "" : ": " AGAIN);
}

struct text read_blob(struct call *call, const struct precast_table *table, const struct blob *blob) {
  const char *name = terminated(call, blob->sha256);
  char digest[DIGEST + 1];
  struct text data = read_file(call, table->path, "blobs", name, blob->size, true);
  sha256(data.data, data.size, digest);
  if (strcmp(digest, name))
    fail(call, PRECAST_INTEGRITY_ERROR, "%s/blobs/%s is damaged: its content is not what the table promises: " AGAIN,
         table->path, name);
  return data;
}

struct text bytes_once(struct call *call, const struct precast_table *table, const struct blob *blob) {
  for (struct checked *one = table->checked; one; one = one->next)
    if (equal(one->sha256, blob->sha256)) return (struct text){NULL, 0};
  return read_blob(call, table, blob);
}

void mark_checked(struct call *call, struct precast_table *table, struct text sha256) {
  struct call lasting = {.memory = &table->memory, .escape = call->escape};
  struct checked *one = take(&lasting, 1, sizeof *one);
  *one = (struct checked){sha256, table->checked};
  table->checked = one;
}
