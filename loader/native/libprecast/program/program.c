/* The form of host programs. loader/contract/format/program/host_program.py has the same. */
#include "program.h"

#define STEPS      8
#define PARAMETERS 64
#define BYTES      4096
#define WORDS      1024

static struct argument argument_of(const struct json *one) {
  const struct json *dtype = find(one, TEXT("dtype")), *device = find(one, TEXT("device"));
  const struct json *alignment = find(one, TEXT("alignment")), *step = find(one, TEXT("divisibility"));
  return (struct argument){
      .name = json_text(find(one, TEXT("name"))),
      .kind = json_text(find(one, TEXT("kind"))),
      .dtype = dtype ? json_text(dtype) : TEXT(""),
      .device = device ? json_text(device) : TEXT(""),
      .shape = find(one, TEXT("shape")),
      .strides = find(one, TEXT("strides")),
      .alignment = alignment ? alignment->number : 0,
      .divisibility = step ? step->number : 1,
  };
}

struct arguments arguments_of(struct call *call, const struct json *signature) {
  const struct json *list = find(signature, TEXT("arguments"));
  struct argument *items = take(call, list->size, sizeof *items);
  for (size_t i = 0; i < list->size; ++i) items[i] = argument_of(&list->items[i]);
  return (struct arguments){items, list->size};
}

static void check_extent(const struct node *node, const char *name, const struct vocabulary *words) {
  struct node extent = at(node, name);
  if (list(&extent, 3)->value->size != 3) refuse(&extent, "expected three expressions");
  for (size_t i = 0; i < 3; ++i) {
    struct node one = item(&extent, i);
    check_expression(&one, words);
  }
}

static bool is_between(const struct json *value, int64_t least, int64_t most) {
  return value->kind == JSON_INT && value->number >= least && value->number <= most;
}

static void check_word(const struct node *node, int64_t size, const struct vocabulary *words) {
  const struct json *value = node->value, *parts = value->kind == JSON_LIST ? value->items : NULL;
  if (!parts || value->size != 3 || !is_between(&parts[0], 0, BYTES - 1) || !is_between(&parts[1], 1, 8) ||
      (parts[1].number & (parts[1].number - 1)))
    refuse(node, "expected an offset, a width of 1, 2, 4 or 8 bytes, and an expression");
  if (parts[0].number + parts[1].number > size) refuse(node, "the word ends after its parameter");
  struct node expression = item(node, 2);
  check_expression(&expression, words);
}

static int64_t check_parameter(const struct node *node, struct arguments arguments) {
  struct vocabulary words = {arguments, false};
  known(node, (const char *[]){"size", "words", NULL});
  struct node size = at(node, "size"), parts = at(node, "words");
  int64_t bytes = count_of(&size, BYTES);
  list(&parts, WORDS);
  for (size_t i = 0; i < parts.value->size; ++i) {
    struct node one = item(&parts, i);
    check_word(&one, bytes, &words);
  }
  return bytes;
}

static void check_step(const struct node *node, struct arguments arguments) {
  static const char *const names[] = {"kernel",  "grid", "block",      "cluster", "shared",
                                      "overlap", "when", "parameters", NULL};
  struct vocabulary words = {arguments, true};
  known(node, names);
  struct node kernel = at(node, "kernel"), shared = at(node, "shared"), overlap = at(node, "overlap");
  struct node when = at(node, "when"), parameters = at(node, "parameters");
  int64_t total = 0;
  formed(&kernel, is_symbol, "a symbol name");
  check_extent(node, "grid", &words);
  check_extent(node, "block", &words);
  check_extent(node, "cluster", &words);
  check_expression(&shared, &words);
  truth(&overlap);
  check_expression(&when, &words);
  list(&parameters, PARAMETERS);
  for (size_t i = 0; i < parameters.value->size; ++i) {
    struct node one = item(&parameters, i);
    total += check_parameter(&one, arguments);
  }
  if (total > BYTES) refuse(&parameters, "more than %d bytes", BYTES);
}

/* What a cubin takes is checked by its signature: a symbol must be explained there, and strides be as many as sizes. */
static void check_shapes(const struct node *node, struct arguments arguments, const struct json *symbols) {
  for (size_t i = 0; i < arguments.count; ++i) {
    struct argument one = arguments.items[i];
    const struct json *dims[2] = {one.shape, one.strides};
    if (!is(one.kind, "tensor")) continue;
    for (size_t n = 0; n < 2; ++n)
      for (size_t k = 0; dims[n] && k < dims[n]->size; ++k)
        if (dims[n]->items[k].kind == JSON_TEXT && !find(symbols, json_text(&dims[n]->items[k])))
          refuse(node, "%s has a symbol that the signature does not define", quoted(node->call, one.name));
    if (one.strides && one.strides->size != (one.shape ? one.shape->size : 0))
      refuse(node, "%s has another number of strides than sizes", quoted(node->call, one.name));
  }
}

void check_program(const struct node *node, const struct json *signature) {
  struct arguments arguments = arguments_of(node->call, signature);
  known(node, (const char *[]){"limit", "steps", NULL});
  struct node steps = at(node, "steps"), limit = at(node, "limit");
  list(&steps, STEPS);
  for (size_t i = 0; i < steps.value->size; ++i) {
    struct node one = item(&steps, i);
    check_step(&one, arguments);
  }
  count_of(&limit, (int64_t)1 << 62);
  check_shapes(node, arguments, find(signature, TEXT("symbols")));
}
