/* Expressions: numbers of 64 bits, made of what a call passes. loader/contract/format/program/expression.py has the
 * same. */
#include <string.h>

#include "config.h"
#include "program.h"

#define DEPTH 12
#define FIRST 3 /* the number of the first function */

static const char *const FUNCTIONS[] = {"add", "sub", "mul",   "floor_div", "ceil_div", "mod",      "min",
                                        "max", "and", "shift", "at_least",  "low",      "float_mul"};

int function_number(struct text name) {
  for (int i = 0; i < (int)(sizeof FUNCTIONS / sizeof *FUNCTIONS); ++i)
    if (is(name, FUNCTIONS[i])) return FIRST + i;
  return 0;
}

static bool ends(struct text text, const char *word) {
  size_t size = strlen(word);
  return text.size >= size && !memcmp(text.data + text.size - size, word, size);
}

/* The digit in brackets of a text such as shape[3] that begins with a word; -1 where it is of another form. */
static int dim_of(struct text text, const char *word) {
  size_t size = strlen(word);
  if (text.size != size + 3 || !begins(text, word) || text.data[size] != '[' || text.data[size + 2] != ']') return -1;
  char digit = text.data[size + 1];
  return digit >= '0' && digit <= '9' ? digit - '0' : -1;
}

/* A name, and perhaps what of it. */
static bool is_leaf(struct text text) {
  size_t end = 0;
  while (end < text.size && text.data[end] != '.') ++end;
  if (!is_name((struct text){text.data, end})) return false;
  if (end == text.size) return true;
  struct text what = {text.data + end + 1, text.size - end - 1};
  return dim_of(what, "shape") >= 0 || dim_of(what, "strides") >= 0 || is(what, "data") || is(what, "span") ||
         is(what, "bits");
}

static bool changes(struct text leaf) { return ends(leaf, ".data") || ends(leaf, ".bits"); }

bool is_whole(struct text dtype) { return begins(dtype, "int") || begins(dtype, "uint") || is(dtype, "bool"); }

bool find_leaf(const struct arguments *arguments, struct text name, struct leaf *leaf) {
  for (size_t i = arguments->count; i-- > 0;) { /* of two arguments with one name, the last */
    const struct argument *argument = &arguments->items[i];
    if (name.size < argument->name.size || memcmp(name.data, argument->name.data, argument->name.size)) continue;
    bool tensor = is(argument->kind, "tensor");
    if (!tensor && !is(argument->kind, "scalar")) continue;
    struct text what = {name.data + argument->name.size, name.size - argument->name.size};
    if (!tensor && !what.size && is_whole(argument->dtype)) return *leaf = (struct leaf){i, LEAF_NUMBER, 0}, true;
    if (!what.size || *what.data != '.') continue;
    ++what.data, --what.size;
    if (!tensor) {
      if (is(what, "bits") && !is_whole(argument->dtype)) return *leaf = (struct leaf){i, LEAF_BITS, 0}, true;
      continue;
    }
    int shape = dim_of(what, "shape"), stride = dim_of(what, "strides"),
        rank = argument->shape ? (int)argument->shape->size : 0;
    if (is(what, "data")) return *leaf = (struct leaf){i, LEAF_DATA, 0}, true;
    if (is(what, "span")) return *leaf = (struct leaf){i, LEAF_SPAN, 0}, true;
    if (shape >= 0 && shape < rank) return *leaf = (struct leaf){i, LEAF_SHAPE, (size_t)shape}, true;
    if (stride >= 0 && stride < rank) return *leaf = (struct leaf){i, LEAF_STRIDE, (size_t)stride}, true;
  }
  return false;
}

static void check_leaf(const struct node *node, const struct vocabulary *words) {
  struct text name = json_text(node->value);
  struct leaf leaf = {0, LEAF_DATA, 0};
  if (!find_leaf(&words->arguments, name, &leaf)) refuse(node, "%s is not in the signature", quoted(node->call, name));
  if (words->decides && changes(name)) refuse(node, "%s must not decide a launch", quoted(node->call, name));
}

static void check(const struct node *node, const struct vocabulary *words, int depth) {
  const struct json *value = node->value;
  if (!value) refuse(node, "missing");
  if (value->kind == JSON_INT) return;
  if (value->kind == JSON_TEXT && is_leaf(json_text(value))) {
    check_leaf(node, words);
    return;
  }
  if (value->kind == JSON_LIST && value->size == 3 && value->items[0].kind == JSON_TEXT && depth < DEPTH) {
    if (function_number(json_text(&value->items[0]))) {
      struct node left = item(node, 1), right = item(node, 2);
      check(&left, words, depth + 1);
      check(&right, words, depth + 1);
      return;
    }
  }
  refuse(node, "expected a number, a leaf such as 'x.shape[0]', or a function and two expressions");
}

void check_expression(const struct node *node, const struct vocabulary *words) { check(node, words, 0); }
