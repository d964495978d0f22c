#include "program_writer.h"

void unusable(const struct writer *writer, struct text name, const char *why) {
  fail(writer->call, PRECAST_LOAD_ERROR, "%.12s cannot be launched: %s: %s; rebuild the cache",
       writer->artifact->key.data, quoted(writer->call, name), why);
}

size_t count_words(const struct writer *writer) { return writer->words.size / sizeof(int64_t); }

void put_word(struct writer *writer, int64_t word) {
  put_text(&writer->words, (struct text){(const char *)&word, sizeof word});
}

int64_t keep_text(struct writer *writer, struct text text) {
  int64_t place = (int64_t)writer->texts.size;
  put_text(&writer->texts, text);
  put_text(&writer->texts, (struct text){"", 1});
  return place;
}

static int64_t slot_of(const struct writer *writer, const struct leaf *leaf) {
  static const int64_t after[] = {[LEAF_SPAN] = 1, [LEAF_SHAPE] = 2, [LEAF_STRIDE] = 2};
  const struct argument *argument = &writer->arguments.items[leaf->argument];
  int64_t slot =
      writer->slots[leaf->argument] + (leaf->kind <= LEAF_STRIDE ? after[leaf->kind] : 0) + (int64_t)leaf->dim;
  return leaf->kind == LEAF_STRIDE ? slot + (int64_t)argument->shape->size : slot;
}

void put_leaf(struct writer *writer, const struct leaf *leaf) { put_word(writer, LEAF | slot_of(writer, leaf) << 8); }

static void put_operations(struct writer *writer, const struct json *expression) {
  if (expression->kind == JSON_INT) {
    put_word(writer, CONSTANT);
    put_word(writer, expression->number);
  } else if (expression->kind == JSON_TEXT) {
    struct leaf leaf = {0, LEAF_DATA, 0};
    find_leaf(&writer->arguments, json_text(expression), &leaf);
    put_leaf(writer, &leaf);
  } else {
    put_operations(writer, &expression->items[1]);
    put_operations(writer, &expression->items[2]);
    put_word(writer, function_number(json_text(&expression->items[0])));
  }
}

void put_expression(struct writer *writer, const struct json *expression) {
  put_operations(writer, expression);
  put_word(writer, END);
}

void put_extents(struct writer *writer, const struct json *step) {
  for (int i = 0; i < 3; ++i) {
    const struct json *extent = find(step, text_of((const char *[]){"grid", "block", "cluster"}[i]));
    for (size_t n = 0; n < 3; ++n) put_expression(writer, &extent->items[n]);
  }
  put_expression(writer, find(step, TEXT("shared")));
}

void put_place(struct writer *writer, int64_t offset, int64_t width, struct later later) {
  put_word(writer, offset), put_word(writer, width);
  later.at = count_words(writer);
  put_word(writer, 0);
  put_text(&writer->queue, (struct text){(const char *)&later, sizeof later});
}

void put_constant(struct writer *writer, int64_t number) {
  put_word(writer, CONSTANT);
  put_word(writer, number);
  put_word(writer, END);
}
