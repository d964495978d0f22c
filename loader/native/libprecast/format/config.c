#include "config.h"

#include <math.h>
#include <string.h>

#include "fields.h"
#include "dtypes.h"

#define NESTED        12
#define LONGEST       1024
#define ITEMS         4096
#define LONGEST_DTYPE 48

static const char *plain(struct call *call, const struct json *value, struct json *out, int depth) {
  *out = *value;
  if (depth > NESTED) return "lists nest deeper than 12 levels: flatten the value";
  switch (value->kind) {
  case JSON_REAL:
    out->real = value->real + 0.0; /* -0.0 becomes 0.0 */
    return isfinite(value->real) ? NULL
           : value->real > 0     ? "inf is not a config value: use a finite number"
                                 : "-inf is not a config value: use a finite number";
  case JSON_BIG:
    return "an integer beyond 64 bits is not a config value: use a smaller one";
  case JSON_OBJECT:
    return "dict is not a config value: use str, int, float, bool, None or lists of them";
  case JSON_TEXT: {
    size_t characters = 0;
    for (size_t i = 0; i < value->size; ++i) characters += ((unsigned char)value->data[i] & 0xc0) != 0x80;
    return characters <= LONGEST
               ? NULL
               : format(call, "a text of %zu characters is not a config value: 1024 at most", characters);
  }
  case JSON_LIST: {
    if (value->size > ITEMS)
      return format(call, "a list of %u items is not a config value: %d at most", value->size, ITEMS);
    struct json *items = take(call, value->size, sizeof *items);
    const char *why = NULL;
    for (size_t i = 0; i < value->size && !why; ++i) why = plain(call, &value->items[i], &items[i], depth + 1);
    out->items = items;
    return why;
  }
  default:
    return NULL;
  }
}

const char *plain_value(struct call *call, const struct json *value, struct json *out) {
  return plain(call, value, out, 0);
}

/* The canonical name of a dtype, or NULL. A module before it, as in torch.bfloat16, is left out. */
static const char *dtype_of(struct text text) {
  char word[LONGEST_DTYPE];
  for (size_t i = text.size; i-- > 0;)
    if (text.data[i] == '.') {
      text.data += i + 1, text.size -= i + 1;
      break;
    }
  if (text.size >= sizeof word) return NULL;
  for (size_t i = 0; i < text.size; ++i) {
    char c = text.data[i];
    word[i] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
  }
  for (size_t i = 0; i < sizeof DTYPES / sizeof *DTYPES; ++i)
    if (is((struct text){word, text.size}, DTYPES[i].word)) return DTYPES[i].dtype;
  return NULL;
}

/* Whether a key holds dtypes, by its name. */
static bool of_dtype(struct text name) {
  for (size_t i = 0; i + 5 <= name.size; ++i) {
    size_t n = 0;
    while (n < 5 && (name.data[i + n] | 32) == "dtype"[n]) ++n;
    if (n == 5) return true;
  }
  return false;
}

static struct json text_value(const char *word) {
  return (struct json){.kind = JSON_TEXT, .size = (uint32_t)strlen(word), .data = word};
}

static const char *not_a_dtype(struct call *call, const struct json *value) {
  struct text words[sizeof DTYPES / sizeof *DTYPES];
  for (size_t i = 0; i < sizeof DTYPES / sizeof *DTYPES; ++i) words[i] = text_of(DTYPES[i].word);
  struct text word = value->kind == JSON_TEXT ? json_text(value) : TEXT("");
  return format(call, "%s is not a dtype%s", shown(call, value),
                suggest(call, word, words, sizeof words / sizeof *words));
}

static const char *normal(struct call *call, struct text type, const struct json *value, struct json *out) {
  char last = type.size ? type.data[type.size - 1] : 0;
  if (last == '?') {
    *out = *value;
    return value->kind == JSON_NULL ? NULL : normal(call, (struct text){type.data, type.size - 1}, value, out);
  }
  if (is(type, "any")) return plain(call, value, out, 0);
  if (is(type, "dtype")) {
    const char *name = value->kind == JSON_TEXT ? dtype_of(json_text(value)) : NULL;
    if (!name) return not_a_dtype(call, value);
    return *out = text_value(name), NULL;
  }
  if (begins(type, "list[") && last == ']') {
    if (value->kind != JSON_LIST) return format(call, "expected a list, not %s: write [..]", shown(call, value));
    struct json *items = take(call, value->size, sizeof *items);
    const char *why = NULL;
    for (size_t i = 0; i < value->size && !why; ++i)
      why = normal(call, (struct text){type.data + 5, type.size - 6}, &value->items[i], &items[i]);
    *out = (struct json){.kind = JSON_LIST, .size = value->size, .items = items};
    return why;
  }
  bool whole = value->kind == JSON_INT || value->kind == JSON_BIG;
  if (!is(type, "str") && !is(type, "int") && !is(type, "float") && !is(type, "bool"))
    return format(call, "%s is not a type of config value: use one of dtype, str, int, float, bool or list[..] of one",
                  quoted(call, type));
  if (!(is(type, "str")     ? value->kind == JSON_TEXT
        : is(type, "int")   ? whole
        : is(type, "float") ? whole || value->kind == JSON_REAL
                            : value->kind == JSON_BOOL))
    return format(call, "expected %s, not %s", terminated(call, type), shown(call, value));
  struct json made = *value;
  if (is(type, "float") && whole)
    made = (struct json){.kind = JSON_REAL, .real = value->kind == JSON_INT ? (double)value->number : value->real};
  return plain(call, &made, out, 0);
}

static double number_of(const struct json *value) {
  return value->kind == JSON_REAL ? value->real : value->kind == JSON_BOOL ? value->truth : (double)value->number;
}

static bool is_number(const struct json *value) {
  return value->kind == JSON_REAL || value->kind == JSON_INT || value->kind == JSON_BOOL;
}

/* Equal as a choice: 1 and 1.0 are. */
static bool equals(const struct json *one, const struct json *other) {
  if (one->kind == JSON_LIST && other->kind == JSON_LIST && one->size == other->size) {
    for (size_t i = 0; i < one->size; ++i)
      if (!equals(&one->items[i], &other->items[i])) return false;
    return true;
  }
  if (one->kind != other->kind && is_number(one) && is_number(other)) return number_of(one) == number_of(other);
  return same(one, other);
}

bool same(const struct json *one, const struct json *other) {
  if (one->kind != other->kind) return false;
  switch (one->kind) {
  case JSON_NULL:
    return true;
  case JSON_BOOL:
    return one->truth == other->truth;
  case JSON_INT:
    return one->number == other->number;
  case JSON_REAL:
    return one->real == other->real;
  case JSON_TEXT:
    return equal(json_text(one), json_text(other));
  case JSON_LIST:
    if (one->size != other->size) return false;
    for (size_t i = 0; i < one->size; ++i)
      if (!same(&one->items[i], &other->items[i])) return false;
    return true;
  default:
    return false; /* numbers beyond 64 bits and objects are no config values */
  }
}

static bool chosen(const struct key *key, const struct json *value) {
  for (size_t i = 0; i < key->choice_count; ++i)
    if (equals(&key->choices[i], value)) return true;
  return !key->choice_count;
}

/* A dtype given by its name, where a plain function's key for it takes a text or anything. */
static struct json in_key_terms(const struct key *key, const struct json *value) {
  struct text type = key->type;
  while (type.size && type.data[type.size - 1] == '?') --type.size;
  const char *name = value->kind == JSON_TEXT ? dtype_of(json_text(value)) : NULL;
  if (!name || !of_dtype(key->name) || !(is(type, "str") || is(type, "any")) || !key->choice_count ||
      chosen(key, value))
    return *value;
  for (size_t i = 0; i < key->choice_count; ++i) {
    const char *other = key->choices[i].kind == JSON_TEXT ? dtype_of(json_text(&key->choices[i])) : NULL;
    if (other && !strcmp(name, other)) return key->choices[i];
  }
  return *value;
}

static const char *normal_of(struct call *call, const struct key *key, const struct json *given, struct json *out) {
  struct json value = in_key_terms(key, given);
  const char *why = normal(call, key->type, &value, out);
  if (why || chosen(key, out)) return why;
  struct text *words = take(call, key->choice_count, sizeof *words);
  for (size_t i = 0; i < key->choice_count; ++i)
    words[i] = key->choices[i].kind == JSON_TEXT ? json_text(&key->choices[i]) : text_of(shown(call, &key->choices[i]));
  struct text word = out->kind == JSON_TEXT ? json_text(out) : text_of(shown(call, out));
  return format(call, "%s is not allowed%s", shown(call, out), suggest(call, word, words, key->choice_count));
}

struct requirements requirements_of(struct call *call, struct text op, const struct key *keys, size_t count,
                                    const struct json *config, enum verified verified) {
  struct requirements required = {keys, take(call, count, sizeof(struct json *)), count, verified};
  for (size_t i = 0; i < config->size; ++i) {
    struct text name = config->members[i].name;
    size_t place = 0;
    while (place < count && !equal(keys[place].name, name)) ++place;
    if (place == count) {
      struct text *words = take(call, count, sizeof *words);
      for (size_t k = 0; k < count; ++k) words[k] = keys[k].name;
      fail(call, PRECAST_WRONG_REQUEST, "op '%s' has no config key %s%s", terminated(call, op), quoted(call, name),
           suggest(call, name, words, count));
    }
    struct json *value = take(call, 1, sizeof *value);
    const char *why = normal_of(call, &keys[place], &config->members[i].value, value);
    if (why)
      fail(call, PRECAST_WRONG_REQUEST, "op '%s', config key %s: %s", terminated(call, op), terminated(call, name),
           why);
    required.values[place] = value;
  }
  for (size_t i = 0; i < count; ++i) {
    if (required.values[i] || keys[i].tuned) continue;
    if (!keys[i].has_default)
      fail(call, PRECAST_WRONG_REQUEST, "op '%s' needs the config key '%s' (%s): add it", terminated(call, op),
           terminated(call, keys[i].name), terminated(call, keys[i].type));
    required.values[i] = &keys[i].otherwise;
  }
  return required;
}

bool matches(const struct requirements *required, size_t key, const struct json *config) {
  const struct json *wanted = required->values[key];
  const struct json *found = config && config->kind == JSON_OBJECT ? find(config, required->keys[key].name) : NULL;
  if (!wanted) return true;
  if (!found) return false;
  if (same(found, wanted)) return true;
  if (!of_dtype(required->keys[key].name) || found->kind != JSON_TEXT || wanted->kind != JSON_TEXT) return false;
  const char *one = dtype_of(json_text(found)), *other = dtype_of(json_text(wanted));
  return one && other && !strcmp(one, other);
}

bool literal(const struct requirements *required, const struct json *config) {
  for (size_t i = 0; i < required->count; ++i) {
    const struct json *found = find(config, required->keys[i].name);
    if (required->values[i] && (!found || !same(found, required->values[i]))) return false;
  }
  return true;
}
