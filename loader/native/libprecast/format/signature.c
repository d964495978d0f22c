/* Signatures: what a kernel takes, as its op's file says it. */
#include "artifact.h"

#define NESTED  4
#define LARGEST ((int64_t)1 << 31)

static void check_dims(const struct node *node) {
  list(node, 32);
  for (size_t i = 0; i < node->value->size; ++i) {
    struct node one = item(node, i);
    size_t characters = 0;
    for (size_t n = 0; one.value->kind == JSON_TEXT && n < one.value->size; ++n)
      characters += ((unsigned char)one.value->data[n] & 0xc0) != 0x80;
    if (one.value->kind != JSON_INT && (one.value->kind != JSON_TEXT || characters > 64))
      refuse(&one, "expected a 64-bit number or the name of a symbol");
  }
}

static void check_arguments(const struct node *node, size_t most, int depth);

static void check_argument(const struct node *node, int depth) {
  static const char *const names[] = {"name",         "kind",   "dtype", "shape",   "strides", "alignment",
                                      "divisibility", "device", "value", "members", "written", NULL};
  static const char *const kinds[] = {"tensor", "scalar", "pointer", "stream", "env_stream",
                                      "shape",  "tuple",  "none",    "const",  NULL};
  if (depth > NESTED) refuse(node, "arguments nest deeper than 4 levels");
  known(node, names);
  struct node name = at(node, "name"), kind = at(node, "kind"), dtype = at(node, "dtype"), shape = at(node, "shape");
  struct node strides = at(node, "strides"), alignment = at(node, "alignment"), step = at(node, "divisibility");
  struct node device = at(node, "device"), value = at(node, "value"), members = at(node, "members");
  struct node written = at(node, "written");
  if (value.value && value.value->kind >= JSON_LIST) refuse(&value, "expected a plain value");
  string(&name);
  one_of(&kind, kinds);
  if (dtype.value) string(&dtype);
  if (shape.value) check_dims(&shape);
  if (strides.value) check_dims(&strides);
  if (alignment.value) count_of(&alignment, 1 << 20);
  if (step.value) count_of(&step, LARGEST);
  if (device.value) string(&device);
  if (members.value) check_arguments(&members, 64, depth + 1);
  if (written.value) truth(&written);
}

static void check_arguments(const struct node *node, size_t most, int depth) {
  list(node, most);
  for (size_t i = 0; i < node->value->size; ++i) {
    struct node one = item(node, i);
    check_argument(&one, depth);
  }
}

void check_signature(const struct node *node) {
  known(node, (const char *[]){"arguments", "symbols", NULL});
  struct node arguments = at(node, "arguments"), symbols = at(node, "symbols");
  check_arguments(&arguments, 256, 0);
  object(&symbols, 512);
  for (size_t i = 0; i < symbols.value->size; ++i) {
    struct node one = entry(&symbols, i), dtype = at(&one, "dtype"), step = at(&one, "divisibility");
    known(&one, (const char *[]){"dtype", "divisibility", NULL});
    string(&dtype);
    count_of(&step, LARGEST);
  }
}
