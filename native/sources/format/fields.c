#include "fields.h"

#include <stdio.h>
#include <string.h>

struct node root_of(struct call *call, const struct json *value) {
  return (struct node){.call = call, .value = value, .position = -1};
}

struct node at(const struct node *object, const char *name) {
  struct text text = text_of(name);
  return (struct node){object->call, find(object->value, text), object, text, -1};
}

struct node item(const struct node *list, size_t position) {
  return (struct node){list->call, &list->value->items[position], list, {"", 0}, (int64_t)position};
}

struct node entry(const struct node *object, size_t position) {
  const struct member *member = &object->value->members[position];
  return (struct node){object->call, &member->value, object, member->name, -1};
}

static void put_place(struct builder *builder, const struct node *node) {
  if (!node->outer) return;
  put_place(builder, node->outer);
  if (node->position >= 0) {
    put(builder, "[%lld]", (long long)node->position);
  } else {
    if (builder->size) put(builder, ".");
    put_text(builder, (struct text){node->name.data, node->name.size < 80 ? node->name.size : 80});
  }
}

void refuse(const struct node *node, const char *text, ...) {
  va_list arguments;
  char what[600];
  va_start(arguments, text);
  vsnprintf(what, sizeof what, text, arguments);
  va_end(arguments);
  struct builder place = {.call = node->call}, whole = {.call = node->call};
  put_place(&place, node);
  put(&whole, "%s", what);
  if (place.size) {
    put(&whole, " in ");
    put_quoted(&whole, (struct text){place.data, place.size});
  }
  fail(node->call, PRECAST_CACHE_ERROR, "%s", built(&whole));
}

const char *type_name(const struct json *value) {
  static const char *const names[] = {"null", "bool", "int", "int", "float", "str", "list", "dict"};
  return names[value->kind];
}

static void expect(const struct node *node, enum kind kind, const char *name) {
  if (!node->value) refuse(node, "missing");
  if (node->value->kind != kind) refuse(node, "expected %s, not %s", name, type_name(node->value));
}

const struct node *object_of(const struct node *node, size_t most) {
  expect(node, JSON_OBJECT, "an object");
  if (node->value->size > most)
    refuse(node, "%u entries, more than the %zu this reader takes", node->value->size, most);
  return node;
}

const struct node *list(const struct node *node, size_t most) {
  expect(node, JSON_LIST, "a list");
  if (node->value->size > most) refuse(node, "%u items, more than the %zu this reader takes", node->value->size, most);
  return node;
}

struct text string(const struct node *node) {
  expect(node, JSON_TEXT, "str");
  return json_text(node->value);
}

int64_t count_of(const struct node *node, int64_t most) {
  if (node->value && node->value->kind == JSON_BIG)
    refuse(node, "%.0f is not between 0 and %lld", node->value->real, (long long)most);
  expect(node, JSON_INT, "int");
  int64_t number = node->value->number;
  if (number < 0 || number > most) refuse(node, "%lld is not between 0 and %lld", (long long)number, (long long)most);
  return number;
}

struct text formed(const struct node *node, bool (*form)(struct text), const char *what) {
  struct text text = string(node);
  if (!form(text)) refuse(node, "%s is not %s", quoted(node->call, text), what);
  return text;
}

struct text one_of(const struct node *node, const char *const words[]) {
  struct text text = string(node);
  struct builder list = {.call = node->call};
  for (size_t i = 0; words[i]; ++i) {
    if (is(text, words[i])) return text;
    put(&list, i ? ", %s" : "%s", words[i]);
  }
  refuse(node, "%s is not one of %s", quoted(node->call, text), built(&list));
}

const struct node *known(const struct node *node, const char *const names[]) {
  object_of(node, UINT32_MAX);
  for (size_t i = 0; i < node->value->size; ++i) {
    struct node one = entry(node, i);
    size_t place = 0;
    while (names[place] && !is(one.name, names[place])) ++place;
    if (!names[place]) refuse(&one, "unknown key");
  }
  return node;
}

static bool lower(char c) { return c >= 'a' && c <= 'z'; }
static bool digit(char c) { return c >= '0' && c <= '9'; }
static bool letter(char c) { return lower(c) || (c >= 'A' && c <= 'Z') || c == '_'; }

static bool is_identifier(struct text text, size_t most) {
  if (!text.size || text.size > most || !letter(text.data[0])) return false;
  for (size_t i = 1; i < text.size; ++i)
    if (!letter(text.data[i]) && !digit(text.data[i])) return false;
  return true;
}

bool is_name(struct text text) { return is_identifier(text, 64); }

bool is_symbol(struct text text) { return is_identifier(text, 1024); }

bool is_op_name(struct text text) {
  size_t parts = 1, length = 0; /* of up to four parts, each of 1 to 64 characters */
  for (size_t i = 0; i < text.size; ++i) {
    char c = text.data[i];
    if (c == '.') {
      if (!length || ++parts > 4) return false;
      length = 0;
    } else if (!(lower(c) || (length && (digit(c) || c == '_'))) || ++length > 64) {
      return false;
    }
  }
  return length > 0;
}

static bool is_hex(struct text text, size_t size) {
  if (text.size != size) return false;
  for (size_t i = 0; i < size; ++i)
    if (!digit(text.data[i]) && !(text.data[i] >= 'a' && text.data[i] <= 'f')) return false;
  return true;
}

bool is_digest(struct text text) { return is_hex(text, 64); }

bool is_soname(struct text text) {
  return text.size == 33 && begins(text, "libprecast-rt-") && is_hex((struct text){text.data + 14, 16}, 16) &&
         !memcmp(text.data + 30, ".so", 3);
}

bool is_glibc(struct text text) {
  if (text.size < 3 || text.size > 5 || !begins(text, "2.")) return false;
  for (size_t i = 2; i < text.size; ++i)
    if (!digit(text.data[i])) return false;
  return true;
}
