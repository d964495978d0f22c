/* Numbers of 64 bits, then texts that end with a zero byte. An expression is a list of operations for a stack.
 * loader/launch/program_code.py writes the same. */
#include "program_code.h"

#include <string.h>

#include "dlpack_codes.h"
#include "program.h"

enum { END = 0, CONSTANT = 1, LEAF = 2 }; /* the operations of an expression that are no functions */
enum { MAGIC = 0x50524731, CPU = 1, CUDA = 2 };
enum { NONE, TENSOR, INTEGER, BOOLEAN, FLOAT32, FLOAT64 };

struct writer {
  struct call *call;
  const struct artifact *artifact;
  struct arguments arguments;
  const struct json *symbols;
  int64_t *slots;                     /* by the arguments: where the numbers of each begin */
  struct builder words, texts, queue; /* the queue: the expressions of words, which follow all steps */
};

/* An expression that follows all steps, and where to write its position. */
struct later {
  size_t at;
  const struct json *expression;
};

struct dtype {
  int64_t code, bits, lanes;
};

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

static void put_dims(struct writer *writer, const struct json *dims) {
  for (size_t i = 0; dims && i < dims->size; ++i) {
    const struct json *dim = &dims->items[i],
                      *symbol = dim->kind == JSON_TEXT ? find(writer->symbols, json_text(dim)) : NULL;
    put_word(writer, symbol != NULL);
    put_word(writer, symbol ? (int64_t)((const struct member *)((const char *)symbol - offsetof(struct member, value)) -
                                        writer->symbols->members)
                            : dim->number);
  }
}

/* Write an argument whose numbers begin at a slot; where those of the next one begin. */
static int64_t put_argument(struct writer *writer, const struct argument *argument, int64_t slot) {
  size_t rank = argument->shape ? argument->shape->size : 0;
  struct dtype dtype = {0, 0, 0};
  bool tensor = is(argument->kind, "tensor"), scalar = is(argument->kind, "scalar");
  int kind;
  if (tensor && dlpack_dtype(argument->dtype, &dtype))
    kind = TENSOR;
  else if (is(argument->kind, "none"))
    kind = NONE;
  else if (scalar && is(argument->dtype, "float32"))
    kind = FLOAT32;
  else if (scalar && is(argument->dtype, "float64"))
    kind = FLOAT64;
  else if (scalar && is_whole(argument->dtype))
    kind = is(argument->dtype, "bool") ? BOOLEAN : INTEGER;
  else
    fail(writer->call, PRECAST_LOAD_ERROR,
         "%.12s cannot be launched: %s: native code reads no such argument; rebuild the cache",
         writer->artifact->key.data, quoted(writer->call, argument->name));
  put_word(writer, kind);
  put_word(writer, keep_text(writer, argument->name));
  put_word(writer, keep_text(writer, argument->dtype));
  put_word(writer, keep_text(writer, argument->device));
  put_word(writer, (int64_t)rank);
  put_word(writer, is(argument->device, "cpu") ? CPU : is(argument->device, "cuda") ? CUDA : 0);
  put_word(writer, dtype.code), put_word(writer, dtype.bits), put_word(writer, dtype.lanes);
  put_word(writer, argument->strides != NULL);
  put_word(writer, argument->alignment), put_word(writer, argument->divisibility);
  if (kind == INTEGER || kind == BOOLEAN)
    put_limits(writer, argument->dtype);
  else
    put_word(writer, 0), put_word(writer, 0);
  put_dims(writer, argument->shape);
  put_dims(writer, argument->strides);
  return slot + (kind == TENSOR ? 2 + 2 * (int64_t)rank : 1);
}

static int64_t slot_of(const struct writer *writer, const struct leaf *leaf) {
  static const int64_t after[] = {[LEAF_SPAN] = 1, [LEAF_SHAPE] = 2, [LEAF_STRIDE] = 2};
  const struct argument *argument = &writer->arguments.items[leaf->argument];
  int64_t slot =
      writer->slots[leaf->argument] + (leaf->kind <= LEAF_STRIDE ? after[leaf->kind] : 0) + (int64_t)leaf->dim;
  return leaf->kind == LEAF_STRIDE ? slot + (int64_t)argument->shape->size : slot;
}

static void put_operations(struct writer *writer, const struct json *expression) {
  if (expression->kind == JSON_INT) {
    put_word(writer, CONSTANT);
    put_word(writer, expression->number);
  } else if (expression->kind == JSON_TEXT) {
    struct leaf leaf = {0, LEAF_DATA, 0};
    find_leaf(&writer->arguments, json_text(expression), &leaf);
    put_word(writer, LEAF | slot_of(writer, &leaf) << 8);
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

static void put_extents(struct writer *writer, const struct json *step) {
  for (int i = 0; i < 3; ++i) {
    const struct json *extent = find(step, text_of((const char *[]){"grid", "block", "cluster"}[i]));
    for (size_t n = 0; n < 3; ++n) put_expression(writer, &extent->items[n]);
  }
  put_expression(writer, find(step, TEXT("shared")));
}

static void put_step(struct writer *writer, const struct json *step) {
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
      put_word(writer, parts[0].number), put_word(writer, parts[1].number);
      struct later later = {count_words(writer), &parts[2]};
      put_word(writer, 0);
      put_text(&writer->queue, (struct text){(const char *)&later, sizeof later});
    }
  }
}

/* What errors say behind the name of an argument: which kernel was called. */
static int64_t put_calling(struct writer *writer, struct text op) {
  struct builder text = {.call = writer->call};
  put(&text, " when calling: `");
  put_text(&text, op);
  put(&text, "(");
  for (size_t i = 0, passed = 0; i < writer->arguments.count; ++i) {
    struct argument one = writer->arguments.items[i];
    if (is(one.kind, "env_stream")) continue;
    if (passed++) put(&text, ", ");
    put_text(&text, one.name);
    put(&text, is(one.kind, "tensor") ? ": Tensor([" : ": ");
    for (size_t n = 0; is(one.kind, "tensor") && one.shape && n < one.shape->size; ++n) {
      if (n) put(&text, ", ");
      if (one.shape->items[n].kind == JSON_TEXT)
        put_text(&text, json_text(&one.shape->items[n]));
      else
        put(&text, "%lld", (long long)one.shape->items[n].number);
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
  writer.queue.call = call;
  const struct json *steps = find(artifact->program, TEXT("steps"));
  int64_t slot = 0, passed = 0;
  writer.arguments = arguments_of(call, artifact->signature),
  writer.symbols = find(artifact->signature, TEXT("symbols"));
  writer.slots = take(call, writer.arguments.count, sizeof *writer.slots);
  for (size_t i = 0; i < writer.arguments.count; ++i) passed += !is(writer.arguments.items[i].kind, "env_stream");
  keep_text(&writer, TEXT(""));
  put_word(&writer, MAGIC), put_word(&writer, 0), put_word(&writer, 0);
  put_word(&writer, put_calling(&writer, op));
  put_word(&writer, find(artifact->program, TEXT("limit"))->number);
  put_word(&writer, passed), put_word(&writer, writer.symbols->size), put_word(&writer, steps->size);
  for (size_t i = 0; i < writer.symbols->size; ++i) {
    const struct json *symbol = &writer.symbols->members[i].value;
    struct text dtype = json_text(find(symbol, TEXT("dtype")));
    put_word(&writer, keep_text(&writer, dtype));
    put_word(&writer, find(symbol, TEXT("divisibility"))->number);
    put_limits(&writer, dtype);
  }
  for (size_t i = 0; i < writer.arguments.count; ++i) {
    struct argument one = writer.arguments.items[i];
    if (is(one.kind, "env_stream")) continue;
    writer.slots[i] = slot;
    slot = put_argument(&writer, &one, slot);
  }
  for (size_t i = 0; i < steps->size; ++i) put_step(&writer, &steps->items[i]);
  size_t count = writer.queue.size / sizeof(struct later);
  for (size_t i = 0; i < count; ++i) {
    struct later later;
    memcpy(&later, writer.queue.data + i * sizeof later, sizeof later);
    int64_t place = (int64_t)count_words(&writer);
    memcpy(writer.words.data + later.at * sizeof place, &place, sizeof place);
    put_expression(&writer, later.expression);
  }
  int64_t sizes[2] = {(int64_t)count_words(&writer), (int64_t)writer.texts.size};
  memcpy(writer.words.data + sizeof(int64_t), sizes, sizeof sizes);
  put_text(&writer.words, (struct text){writer.texts.data, writer.texts.size});
  return (struct text){writer.words.data, writer.words.size};
}
