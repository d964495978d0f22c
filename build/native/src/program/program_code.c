/* Numbers of 64 bits, then texts that end with a zero byte. An expression is a list of operations for a stack.
 * loader/launch/programs/program_code.py writes the same, and loader/format/program/from_plan.py makes programs of plans. */
#include "program_code.h"

#include <string.h>

#include "dlpack_codes.h"
#include "program.h"

enum { MAGIC = 0x50524731, END = 0, CONSTANT = 1, LEAF = 2, CPU = 1, CUDA = 2 };
enum { NONE, TENSOR, INTEGER, BOOLEAN, FLOAT32, FLOAT64 };

struct writer {
  struct call *call;
  const struct artifact *artifact;
  const struct json *arguments, *symbols;
  int64_t *slots; /* by the arguments: where the numbers of each begin */
  struct builder words, texts;
};

struct dtype {
  int64_t code, bits, lanes;
};

_Noreturn static void unusable(const struct writer *writer, const char *name, const char *why) {
  fail(writer->call, PRECAST_LOAD_ERROR, "%.12s cannot be launched: %s: %s; rebuild the cache", writer->artifact->key.data,
       quoted(writer->call, text_of(name)), why);
}

static size_t count_words(const struct writer *writer) { return writer->words.size / sizeof(int64_t); }

static void put_word(struct writer *writer, int64_t word) {
  put_text(&writer->words, (struct text){(const char *)&word, sizeof word});
}

static int64_t keep_text(struct writer *writer, struct text text) {
  int64_t place = (int64_t)writer->texts.size;
  put_text(&writer->texts, text);
  put_text(&writer->texts, (struct text){"", 1});
  return place;
}

/* The number that a text begins with, of three digits at most; -1 where it begins with none, or a longer one. */
static int64_t take_number(struct text *text) {
  int64_t number = 0;
  size_t digits = 0;
  for (; digits < text->size && text->data[digits] >= '0' && text->data[digits] <= '9'; ++digits)
    if (digits < 4) number = number * 10 + (text->data[digits] - '0');
  text->data += digits, text->size -= digits;
  return digits >= 1 && digits <= 3 ? number : -1;
}

static int64_t code_of(struct text word) {
  for (size_t i = 0; i < sizeof DLPACK_CODES / sizeof *DLPACK_CODES; ++i)
    if (is(word, DLPACK_CODES[i].word)) return DLPACK_CODES[i].code;
  return -1;
}

/* A dtype as DLPack has it, such as float8_e4m3fn or float4_e2m1fnx2; false for a name that DLPack does not have. */
static bool dlpack_dtype(struct text name, struct dtype *dtype) {
  size_t letters = 0;
  while (letters < name.size && name.data[letters] >= 'a' && name.data[letters] <= 'z') ++letters;
  struct text kind = {name.data, letters}, rest = {name.data + letters, name.size - letters};
  bool truth = is(kind, "bool"), numbered = rest.size && rest.data[0] >= '0' && rest.data[0] <= '9';
  if (code_of(kind) < 0) return false;
  *dtype = (struct dtype){code_of(kind), numbered ? take_number(&rest) : truth ? 8 : -1, 1};
  for (size_t i = 0; i < rest.size; ++i) { /* the lanes, behind the last x */
    struct text lanes = {rest.data + i + 1, rest.size - i - 1};
    if (rest.data[i] != 'x' || !lanes.size) continue;
    int64_t count = take_number(&lanes);
    if (count < 0 || lanes.size) continue;
    dtype->lanes = count, rest.size = i;
  }
  if (rest.size) dtype->code = rest.data[0] == '_' ? code_of(rest) : -1;
  return dtype->code >= 0 && dtype->bits >= 0;
}

static void put_limits(struct writer *writer, struct text dtype) {
  bool unsign = begins(dtype, "u");
  struct text number = {dtype.data + unsign, dtype.size - unsign};
  int bits = is(number, "int16") ? 16 : is(number, "int32") ? 32 : is(number, "int64") ? 64 : 8;
  if (bits == 8 && !is(number, "int8")) unsign = false; /* a bool, and what nobody knows */
  int64_t half = (int64_t)1 << (bits - 1 - (bits == 64)), most = bits == 64 ? half - 1 + half : half - 1;
  put_word(writer, unsign && bits < 64 ? 0 : -most - 1);
  put_word(writer, unsign && bits < 64 ? 2 * half - 1 : most);
}

static void put_dims(struct writer *writer, const struct argument *argument, const struct json *dims) {
  for (size_t i = 0; dims && i < dims->size; ++i) {
    const struct json *dim = &dims->items[i], *symbol = dim->kind == JSON_TEXT ? find(writer->symbols, json_text(dim)) : NULL;
    if (dim->kind == JSON_TEXT && !symbol)
      unusable(writer, terminated(writer->call, argument->name), "its shape has a symbol that the signature does not explain");
    put_word(writer, symbol != NULL);
    put_word(writer, symbol ? (int64_t)((const struct member *)((const char *)symbol - offsetof(struct member, value)) -
                                        writer->symbols->members)
                            : dim->number);
  }
}

/* Write an argument whose numbers begin at a slot; where those of the next one begin. */
static int64_t put_argument(struct writer *writer, const struct argument *argument, int64_t slot) {
  const char *name = terminated(writer->call, argument->name);
  size_t rank = argument->shape ? argument->shape->size : 0;
  struct dtype dtype = {0, 0, 0};
  bool tensor = is(argument->kind, "tensor"), scalar = is(argument->kind, "scalar");
  int kind;
  if (tensor && dlpack_dtype(argument->dtype, &dtype)) kind = TENSOR;
  else if (is(argument->kind, "none")) kind = NONE;
  else if (scalar && is(argument->dtype, "float32")) kind = FLOAT32;
  else if (scalar && is(argument->dtype, "float64")) kind = FLOAT64;
  else if (scalar && is_whole(argument->dtype)) kind = is(argument->dtype, "bool") ? BOOLEAN : INTEGER;
  else unusable(writer, name, "native code reads no such argument");
  if (argument->strides && argument->strides->size != rank) unusable(writer, name, "it has other strides than sizes");
  put_word(writer, kind);
  put_word(writer, keep_text(writer, argument->name));
  put_word(writer, keep_text(writer, argument->dtype));
  put_word(writer, keep_text(writer, argument->device));
  put_word(writer, (int64_t)rank);
  put_word(writer, is(argument->device, "cpu") ? CPU : is(argument->device, "cuda") ? CUDA : 0);
  put_word(writer, dtype.code), put_word(writer, dtype.bits), put_word(writer, dtype.lanes);
  put_word(writer, argument->strides != NULL);
  put_word(writer, argument->alignment), put_word(writer, argument->divisibility);
  if (kind == INTEGER || kind == BOOLEAN) put_limits(writer, argument->dtype);
  else put_word(writer, 0), put_word(writer, 0);
  put_dims(writer, argument, argument->shape);
  put_dims(writer, argument, argument->strides);
  return slot + (kind == TENSOR ? 2 + 2 * (int64_t)rank : 1);
}

static int64_t slot_of(const struct writer *writer, const struct leaf *leaf) {
  static const int64_t after[] = {[LEAF_SPAN] = 1, [LEAF_SHAPE] = 2, [LEAF_STRIDE] = 2};
  struct argument argument = argument_of(writer->artifact->signature, leaf->argument);
  int64_t slot = writer->slots[leaf->argument] + (leaf->kind <= LEAF_STRIDE ? after[leaf->kind] : 0) + (int64_t)leaf->dim;
  return leaf->kind == LEAF_STRIDE ? slot + (int64_t)argument.shape->size : slot;
}

static void put_leaf(struct writer *writer, const struct leaf *leaf) { put_word(writer, LEAF | slot_of(writer, leaf) << 8); }

static void put_operations(struct writer *writer, const struct json *expression) {
  if (expression->kind == JSON_INT) {
    put_word(writer, CONSTANT);
    put_word(writer, expression->number);
  } else if (expression->kind == JSON_TEXT) {
    struct leaf leaf = {0, LEAF_DATA, 0};
    find_leaf(writer->artifact->signature, json_text(expression), &leaf);
    put_leaf(writer, &leaf);
  } else {
    put_operations(writer, &expression->items[1]);
    put_operations(writer, &expression->items[2]);
    put_word(writer, function_number(json_text(&expression->items[0])));
  }
}

static void put_expression(struct writer *writer, const struct json *expression) {
  put_operations(writer, expression);
  put_word(writer, END);
}

static void put_constant(struct writer *writer, int64_t number) {
  put_word(writer, CONSTANT);
  put_word(writer, number);
  put_word(writer, END);
}

static void put_extents(struct writer *writer, const struct json *step) {
  for (int i = 0; i < 3; ++i) {
    const struct json *extent = find(step, text_of((const char *[]){"grid", "block", "cluster"}[i]));
    for (size_t n = 0; n < 3; ++n) put_expression(writer, &extent->items[n]);
  }
  put_expression(writer, find(step, TEXT("shared")));
}

/* A word of a parameter; its expression stands behind all steps, from a place that is written here later. */
struct later {
  size_t at;
  const struct json *expression; /* NULL: the leaf */
  struct leaf leaf;
};

struct queue {
  struct builder items;
};

static void put_place(struct writer *writer, struct queue *queue, int64_t offset, int64_t width, struct later later) {
  put_word(writer, offset), put_word(writer, width);
  later.at = count_words(writer);
  put_word(writer, 0);
  put_text(&queue->items, (struct text){(const char *)&later, sizeof later});
}

static void put_step(struct writer *writer, struct queue *queue, const struct json *step) {
  const struct json *parameters = find(step, TEXT("parameters"));
  put_word(writer, keep_text(writer, json_text(find(step, TEXT("kernel")))));
  put_word(writer, find(step, TEXT("overlap"))->truth);
  put_expression(writer, find(step, TEXT("when")));
  put_extents(writer, step);
  put_word(writer, parameters->size);
  for (size_t i = 0; i < parameters->size; ++i) {
    const struct json *words = find(&parameters->items[i], TEXT("words"));
    put_word(writer, find(&parameters->items[i], TEXT("size"))->number);
    put_word(writer, words->size);
    for (size_t n = 0; n < words->size; ++n) {
      const struct json *parts = words->items[n].items;
      put_place(writer, queue, parts[0].number, parts[1].number, (struct later){.expression = &parts[2]});
    }
  }
}

/* How many bytes a number of a dtype takes as a parameter; 0 where that is not known. */
static int64_t width_of(struct text dtype, bool real) {
  static const struct { const char *dtype; int64_t width; } widths[] = {
      {"int8", 1}, {"uint8", 1}, {"int16", 2}, {"uint16", 2}, {"int32", 4}, {"uint32", 4}, {"int64", 8}, {"uint64", 8},
      {"bool", 1}, {"float16", 2}, {"float32", 4}, {"float64", 8}};
  for (size_t i = 0; i < (real ? 12 : 8); ++i)
    if (is(dtype, widths[i].dtype)) return widths[i].width;
  return 0;
}

/* A tensor of a plan: its address, then its shape and its strides as far as these were left open, each at a multiple of
 * its size. A first pass counts. */
static size_t put_tensor(struct writer *writer, struct queue *queue, size_t position, const struct argument *argument,
                         int64_t *end) {
  const struct json *dims[2] = {argument->shape, argument->strides};
  size_t count = 1;
  if (!argument->strides)
    unusable(writer, terminated(writer->call, argument->name), "its strides are not stated, so how it is packed is not known");
  if (queue) put_place(writer, queue, 0, 8, (struct later){.leaf = {position, LEAF_DATA, 0}});
  *end = 8;
  for (int which = 0; which < 2; ++which)
    for (size_t i = 0; dims[which] && i < dims[which]->size; ++i) {
      const struct json *dim = &dims[which]->items[i], *symbol = NULL;
      if (dim->kind != JSON_TEXT) continue;
      symbol = find(writer->symbols, json_text(dim));
      int64_t width = symbol ? width_of(json_text(find(symbol, TEXT("dtype"))), false) : 0;
      if (!width) unusable(writer, terminated(writer->call, argument->name), "how its sizes are packed is not known");
      *end = (*end + width - 1) / width * width;
      struct leaf leaf = {position, which ? LEAF_STRIDE : LEAF_SHAPE, i};
      if (queue) put_place(writer, queue, *end, width, (struct later){.leaf = leaf});
      *end += width, ++count;
    }
  return count;
}

static size_t position_of(const struct writer *writer, struct text name) {
  size_t position = writer->arguments->size;
  while (position-- > 0) {
    struct argument one = argument_of(writer->artifact->signature, position);
    if (equal(one.name, name) && !is(one.kind, "env_stream")) break;
  }
  return position;
}

/* The one launch that an author's plan stands for. */
static void put_plan(struct writer *writer, struct queue *queue, const struct json *plan) {
  const struct json *parameters = find(plan, TEXT("parameters"));
  put_word(writer, keep_text(writer, writer->artifact->symbol));
  put_word(writer, 0);
  put_constant(writer, 1);
  put_extents(writer, plan);
  put_word(writer, parameters->size);
  for (size_t i = 0; i < parameters->size; ++i) {
    size_t position = position_of(writer, json_text(&parameters->items[i]));
    struct argument argument = argument_of(writer->artifact->signature, position);
    int64_t size = width_of(argument.dtype, true);
    if (is(argument.kind, "tensor")) {
      size_t count = put_tensor(writer, NULL, position, &argument, &size);
      put_word(writer, size);
      put_word(writer, (int64_t)count);
      put_tensor(writer, queue, position, &argument, &size);
      continue;
    }
    if (!size) unusable(writer, terminated(writer->call, argument.name), "how such a number is packed is not known");
    put_word(writer, size), put_word(writer, 1);
    struct leaf leaf = {position, is_whole(argument.dtype) ? LEAF_NUMBER : LEAF_BITS, 0};
    put_place(writer, queue, 0, size, (struct later){.leaf = leaf});
  }
}

/* What errors say behind the name of an argument: which kernel was called. */
static int64_t put_calling(struct writer *writer, struct text op) {
  struct builder text = {.call = writer->call};
  put(&text, " when calling: `");
  put_text(&text, op);
  put(&text, "(");
  for (size_t i = 0, passed = 0; i < writer->arguments->size; ++i) {
    struct argument one = argument_of(writer->artifact->signature, i);
    if (is(one.kind, "env_stream")) continue;
    if (passed++) put(&text, ", ");
    put_text(&text, one.name);
    put(&text, is(one.kind, "tensor") ? ": Tensor([" : ": ");
    for (size_t n = 0; is(one.kind, "tensor") && one.shape && n < one.shape->size; ++n) {
      if (n) put(&text, ", ");
      if (one.shape->items[n].kind == JSON_TEXT) put_text(&text, json_text(&one.shape->items[n]));
      else put(&text, "%lld", (long long)one.shape->items[n].number);
    }
    if (is(one.kind, "tensor")) put(&text, "], ");
    put_text(&text, is(one.kind, "none") ? TEXT("None") : one.dtype);
    if (is(one.kind, "tensor")) put(&text, ")");
  }
  put(&text, ")`");
  return keep_text(writer, (struct text){text.data, text.size});
}

struct text program_code(struct call *call, struct text op, const struct artifact *artifact) {
  struct writer writer = {.call = call, .artifact = artifact, .words = {.call = call}, .texts = {.call = call}};
  struct queue queue = {{.call = call}};
  const struct json *steps = artifact->program ? find(artifact->program, TEXT("steps")) : NULL;
  int64_t slot = 0, passed = 0;
  writer.arguments = find(artifact->signature, TEXT("arguments")), writer.symbols = find(artifact->signature, TEXT("symbols"));
  writer.slots = take(call, writer.arguments->size, sizeof *writer.slots);
  for (size_t i = 0; i < writer.arguments->size; ++i)
    passed += !is(argument_of(artifact->signature, i).kind, "env_stream");
  keep_text(&writer, TEXT(""));
  put_word(&writer, MAGIC), put_word(&writer, 0), put_word(&writer, 0);
  put_word(&writer, put_calling(&writer, op));
  put_word(&writer, artifact->program ? find(artifact->program, TEXT("limit"))->number : 0);
  put_word(&writer, passed), put_word(&writer, writer.symbols->size), put_word(&writer, steps ? steps->size : 1);
  for (size_t i = 0; i < writer.symbols->size; ++i) {
    const struct json *symbol = &writer.symbols->members[i].value;
    struct text dtype = json_text(find(symbol, TEXT("dtype")));
    put_word(&writer, keep_text(&writer, dtype));
    put_word(&writer, find(symbol, TEXT("divisibility"))->number);
    put_limits(&writer, dtype);
  }
  for (size_t i = 0; i < writer.arguments->size; ++i) {
    struct argument one = argument_of(artifact->signature, i);
    if (is(one.kind, "env_stream")) continue;
    writer.slots[i] = slot;
    slot = put_argument(&writer, &one, slot);
  }
  for (size_t i = 0; steps && i < steps->size; ++i) put_step(&writer, &queue, &steps->items[i]);
  if (!steps) put_plan(&writer, &queue, artifact->plan);
  size_t count = queue.items.size / sizeof(struct later);
  for (size_t i = 0; i < count; ++i) {
    struct later later;
    memcpy(&later, queue.items.data + i * sizeof later, sizeof later);
    int64_t place = (int64_t)count_words(&writer);
    memcpy(writer.words.data + later.at * sizeof place, &place, sizeof place);
    if (later.expression) put_expression(&writer, later.expression);
    else put_leaf(&writer, &later.leaf), put_word(&writer, END);
  }
  int64_t sizes[2] = {(int64_t)count_words(&writer), (int64_t)writer.texts.size};
  memcpy(writer.words.data + sizeof(int64_t), sizes, sizeof sizes);
  put_text(&writer.words, (struct text){writer.texts.data, writer.texts.size});
  return (struct text){writer.words.data, writer.words.size};
}
