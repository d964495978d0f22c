#include "json.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH  500
#define DIGITS 4300    /* of one number; as many as Python's reader takes */
#define VALUES 1000000 /* of a file: an empty list has two bytes in it, and a hundred in memory */

struct parser {
  struct call *call;
  const char *at, *end;
  struct member *stack; /* the items of the lists and objects that are not closed yet */
  size_t used, room;
  struct json root;
};

_Noreturn static void refuse(struct parser *parser, const char *why) {
  fail(parser->call, PRECAST_CACHE_ERROR, "not JSON: %s", why);
}

static void skip_space(struct parser *p) {
  while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\t' || *p->at == '\r')) ++p->at;
}

static bool word(struct parser *p, const char *text) {
  size_t size = strlen(text);
  if ((size_t)(p->end - p->at) < size || memcmp(p->at, text, size)) return false;
  p->at += size;
  return true;
}

static void check_utf8(struct parser *p) {
  const unsigned char *at = (const unsigned char *)p->at, *end = (const unsigned char *)p->end;
  while (at < end) {
    unsigned char first = *at++;
    int more = first < 0x80                    ? 0
               : first >= 0xc2 && first < 0xe0 ? 1
               : first >= 0xe0 && first < 0xf0 ? 2
               : first >= 0xf0 && first < 0xf5 ? 3
                                               : -1;
    if (more < 0 || end - at < more) refuse(p, "it is not UTF-8");
    unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    for (; more > 0; --more, low = 0x80, high = 0xbf)
      if (*at < low || *at++ > high) refuse(p, "it is not UTF-8");
  }
}

static unsigned hex4(struct parser *p) {
  unsigned value = 0;
  if (p->end - p->at < 4) refuse(p, "an escape is cut");
  for (int i = 0; i < 4; ++i) {
    char c = *p->at++;
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) refuse(p, "an escape is none");
    value = value * 16 + (unsigned)digit;
  }
  return value;
}

/* Half a character, which JSON can write and UTF-8 cannot, is kept in the form that UTF-8 would give it. */
static char *encode(char *out, unsigned code) {
  if (code < 0x80) {
    *out++ = (char)code;
  } else if (code < 0x800) {
    *out++ = (char)(0xc0 | code >> 6), *out++ = (char)(0x80 | (code & 63));
  } else if (code < 0x10000) {
    *out++ = (char)(0xe0 | code >> 12), *out++ = (char)(0x80 | (code >> 6 & 63)), *out++ = (char)(0x80 | (code & 63));
  } else {
    *out++ = (char)(0xf0 | code >> 18), *out++ = (char)(0x80 | (code >> 12 & 63));
    *out++ = (char)(0x80 | (code >> 6 & 63)), *out++ = (char)(0x80 | (code & 63));
  }
  return out;
}

static struct text string(struct parser *p) {
  const char *begin = ++p->at, *end = begin;
  bool plain = true;
  for (;; ++end) {
    if (end >= p->end) refuse(p, "a text has no end");
    if (*end == '"') break;
    if ((unsigned char)*end < 0x20) refuse(p, "a text holds a control character");
    if (*end == '\\') plain = false, ++end;
  }
  if (plain) {
    p->at = end + 1;
    return (struct text){begin, (size_t)(end - begin)};
  }
  char *made = take(p->call, (size_t)(end - begin) + 1, 1), *out = made;
  while (*p->at != '"') {
    char c = *p->at++;
    if (c != '\\') {
      *out++ = c;
      continue;
    }
    c = *p->at++;
    const char *escapes = "\"\\/bfnrt", *place = c ? strchr(escapes, c) : NULL;
    if (place) {
      *out++ = "\"\\/\b\f\n\r\t"[place - escapes];
    } else if (c == 'u') {
      unsigned code = hex4(p);
      if (code >= 0xd800 && code < 0xdc00 && p->end - p->at >= 6 && p->at[0] == '\\' && p->at[1] == 'u') {
        const char *before = p->at;
        p->at += 2;
        unsigned low = hex4(p);
        if (low >= 0xdc00 && low < 0xe000) {
          code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        } else {
          p->at = before;
        }
      }
      out = encode(out, code);
    } else {
      refuse(p, "an escape is none");
    }
  }
  ++p->at;
  return (struct text){made, (size_t)(out - made)};
}

static const char *digits(const char *at, const char *end) {
  while (at < end && *at >= '0' && *at <= '9') ++at;
  return at;
}

static struct json number(struct parser *p) {
  const char *begin = p->at, *end = p->end, *at = begin + (*begin == '-'), *first = at;
  at = digits(at, end);
  if (at == first || (*first == '0' && at - first > 1)) refuse(p, "a number is none");
  bool whole = true;
  if (at < end && *at == '.') {
    const char *after = digits(at + 1, end);
    if (after == at + 1) refuse(p, "a number is none");
    at = after, whole = false;
  }
  if (at < end && (*at == 'e' || *at == 'E')) {
    const char *sign = at + 1 + (at + 1 < end && (at[1] == '+' || at[1] == '-')), *after = digits(sign, end);
    if (after == sign) refuse(p, "a number is none");
    at = after, whole = false;
  }
  if (at - begin > DIGITS) refuse(p, "a number has thousands of digits");
  char *copy = terminated(p->call, (struct text){begin, (size_t)(at - begin)});
  p->at = at;
  if (whole) {
    int64_t value = 0;
    bool fits = true, negative = *copy == '-';
    for (const char *digit = copy + negative; *digit; ++digit)
      fits = fits && !__builtin_mul_overflow(value, 10, &value) &&
             !__builtin_sub_overflow(value, *digit - '0', &value); /* below 0, where there is one number more */
    if (fits && !negative) fits = !__builtin_sub_overflow((int64_t)0, value, &value);
    if (fits) return (struct json){.kind = JSON_INT, .number = value};
  }
  return (struct json){.kind = whole ? JSON_BIG : JSON_REAL, .real = read_real(copy)};
}

static void push(struct parser *p, struct member item) {
  if (p->used == p->room) {
    size_t room = p->room ? p->room * 2 : 64;
    struct member *stack = realloc(p->stack, room * sizeof *stack);
    if (!stack) fail(p->call, PRECAST_OUT_OF_MEMORY, "there is not enough memory: free some");
    p->stack = stack, p->room = room;
  }
  p->stack[p->used++] = item;
}

static int by_name(const void *one, const void *other) {
  return compare(((const struct member *)one)->name, ((const struct member *)other)->name);
}

static struct json close_object(struct parser *p, size_t begin) {
  size_t count = p->used - begin;
  struct member *members = take(p->call, count, sizeof *members);
  if (count) memcpy(members, p->stack + begin, count * sizeof *members);
  p->used = begin;
  bool sorted = true;
  for (size_t i = 1; i < count && sorted; ++i) sorted = by_name(&members[i - 1], &members[i]) < 0;
  if (!sorted) qsort(members, count, sizeof *members, by_name);
  for (size_t i = 1; i < count && !sorted; ++i)
    if (equal(members[i - 1].name, members[i].name))
      fail(p->call, PRECAST_CACHE_ERROR, "the key occurs twice in %s", quoted(p->call, members[i].name));
  return (struct json){.kind = JSON_OBJECT, .size = (uint32_t)count, .members = members};
}

static struct json close_list(struct parser *p, size_t begin) {
  size_t count = p->used - begin;
  struct json *items = take(p->call, count, sizeof *items);
  for (size_t i = 0; i < count; ++i) items[i] = p->stack[begin + i].value;
  p->used = begin;
  return (struct json){.kind = JSON_LIST, .size = (uint32_t)count, .items = items};
}

static struct json value(struct parser *p, int depth);

static struct json container(struct parser *p, int depth) {
  bool object = *p->at++ == '{';
  char last = object ? '}' : ']';
  size_t begin = p->used;
  if (depth > DEPTH) fail(p->call, PRECAST_CACHE_ERROR, "JSON nests too deep");
  skip_space(p);
  if (p->at < p->end && *p->at == last) {
    ++p->at;
    return object ? close_object(p, begin) : close_list(p, begin);
  }
  for (;;) {
    struct member item = {{"", 0}, {0}};
    if (object) {
      skip_space(p);
      if (p->at >= p->end || *p->at != '"') refuse(p, "a key is no text");
      item.name = string(p);
      skip_space(p);
      if (p->at >= p->end || *p->at++ != ':') refuse(p, "a key has no value");
    }
    item.value = value(p, depth + 1);
    push(p, item);
    skip_space(p);
    if (p->at >= p->end) refuse(p, "it ends too early");
    char next = *p->at++;
    if (next == last) return object ? close_object(p, begin) : close_list(p, begin);
    if (next != ',') refuse(p, "a comma is missing");
  }
}

static struct json bare_value(struct parser *p, int depth) {
  if (p->at >= p->end) refuse(p, "it ends too early");
  if (*p->at == '{' || *p->at == '[') return container(p, depth);
  if (*p->at == '"') {
    struct text text = string(p);
    return (struct json){.kind = JSON_TEXT, .size = (uint32_t)text.size, .data = text.data};
  }
  if (word(p, "true")) return (struct json){.kind = JSON_BOOL, .truth = true};
  if (word(p, "false")) return (struct json){.kind = JSON_BOOL, .truth = false};
  if (word(p, "null")) return (struct json){.kind = JSON_NULL};
  for (int i = 0; i < 3; ++i) {
    const char *none = (const char *[]){"NaN", "Infinity", "-Infinity"}[i];
    if (word(p, none)) fail(p->call, PRECAST_CACHE_ERROR, "%s is not a number that a file may hold", none);
  }
  if (*p->at != '-' && (*p->at < '0' || *p->at > '9')) refuse(p, "a value is none");
  return number(p);
}

static struct json value(struct parser *p, int depth) {
  skip_space(p);
  const char *begin = p->at;
  struct json read = bare_value(p, depth);
  read.source = (struct text){begin, (size_t)(p->at - begin)};
  return read;
}

/* At least as many values as a text has, by the characters that begin or separate them. */
static size_t values_of(struct text text) {
  size_t count = 0;
  for (size_t i = 0; i < text.size; ++i) count += text.data[i] == '[' || text.data[i] == '{' || text.data[i] == ',';
  return count;
}

static void parse_root(struct call *call, void *argument) {
  struct parser *p = argument;
  (void)call;
  p->root = value(p, 1);
  skip_space(p);
  if (p->at != p->end) refuse(p, "something follows it");
}

const struct json *parse_json(struct call *call, struct text text) {
  struct parser parser = {.call = call, .at = text.data, .end = text.data + text.size};
  if (text.size > UINT32_MAX / 2) refuse(&parser, "it is too long");
  if (text.size > VALUES && values_of(text) > VALUES)
    fail(call, PRECAST_CACHE_ERROR, "more than the %d values that this reader takes at once", VALUES);
  check_utf8(&parser);
  bool done = attempt(call, parse_root, &parser);
  free(parser.stack);
  if (!done) fail_again(call);
  struct json *root = take(call, 1, sizeof *root);
  *root = parser.root;
  return root;
}

const struct json *find(const struct json *object, struct text name) {
  size_t low = 0, high = object->kind == JSON_OBJECT ? object->size : 0;
  while (low < high) {
    size_t middle = (low + high) / 2;
    int order = compare(object->members[middle].name, name);
    if (order == 0) return &object->members[middle].value;
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return NULL;
}

bool same(const struct json *one, const struct json *other) {
  if (one->kind != other->kind || one->size != other->size) return false;
  switch (one->kind) {
  case JSON_NULL:
    return true;
  case JSON_BOOL:
    return one->truth == other->truth;
  case JSON_INT:
    return one->number == other->number;
  case JSON_BIG:
    return equal(one->source, other->source);
  case JSON_REAL:
    return one->real == other->real;
  case JSON_TEXT:
    return equal(json_text(one), json_text(other));
  }
  for (size_t i = 0; i < one->size; ++i) {
    if (one->kind == JSON_OBJECT && !equal(one->members[i].name, other->members[i].name)) return false;
    if (one->kind == JSON_OBJECT ? !same(&one->members[i].value, &other->members[i].value)
                                 : !same(&one->items[i], &other->items[i]))
      return false;
  }
  return true;
}

struct text json_text(const struct json *value) { return (struct text){value->data, value->size}; }
