/* The one launch that an author's plan stands for. loader/format/program/from_plan.py makes the same of it. */
#include "plan_code.h"

/* How many bytes a number of a dtype takes as a parameter; 0 where that is not known. */
static int64_t width_of(struct text dtype, bool real) {
  static const struct {
    const char *dtype;
    int64_t width;
  } widths[] = {{"int8", 1},  {"uint8", 1},  {"int16", 2}, {"uint16", 2},  {"int32", 4},   {"uint32", 4},
                {"int64", 8}, {"uint64", 8}, {"bool", 1},  {"float16", 2}, {"float32", 4}, {"float64", 8}};
  for (size_t i = 0; i < (real ? 12 : 8); ++i)
    if (is(dtype, widths[i].dtype)) return widths[i].width;
  return 0;
}

/* A tensor of a plan: its address, then its shape and its strides as far as these were left open, each at a multiple of
 * its size. A first pass counts. */
static size_t put_tensor(struct writer *writer, bool counts, size_t position, const struct argument *argument,
                         int64_t *end) {
  const struct json *dims[2] = {argument->shape, argument->strides};
  size_t count = 1;
  if (!argument->strides)
    unusable(writer, argument->name, "its strides are not stated, so how it is packed is not known");
  if (!counts) put_place(writer, 0, 8, (struct later){.leaf = {position, LEAF_DATA, 0}});
  *end = 8;
  for (int which = 0; which < 2; ++which)
    for (size_t i = 0; dims[which] && i < dims[which]->size; ++i) {
      const struct json *dim = &dims[which]->items[i];
      if (dim->kind != JSON_TEXT) continue;
      int64_t width = width_of(json_text(find(find(writer->symbols, json_text(dim)), TEXT("dtype"))), false);
      if (!width) unusable(writer, argument->name, "how its sizes are packed is not known");
      *end = (*end + width - 1) / width * width;
      struct leaf leaf = {position, which ? LEAF_STRIDE : LEAF_SHAPE, i};
      if (!counts) put_place(writer, *end, width, (struct later){.leaf = leaf});
      *end += width, ++count;
    }
  return count;
}

static size_t position_of(const struct writer *writer, struct text name) {
  size_t position = writer->arguments.count;
  while (position-- > 0) {
    struct argument one = writer->arguments.items[position];
    if (equal(one.name, name) && !is(one.kind, "env_stream")) break;
  }
  return position;
}

void put_plan(struct writer *writer) {
  const struct json *plan = writer->artifact->plan, *parameters = find(plan, TEXT("parameters"));
  put_word(writer, keep_text(writer, writer->artifact->symbol));
  put_word(writer, 0);
  put_constant(writer, 1);
  put_extents(writer, plan);
  put_word(writer, parameters->size);
  for (size_t i = 0; i < parameters->size; ++i) {
    size_t position = position_of(writer, json_text(&parameters->items[i]));
    struct argument argument = writer->arguments.items[position];
    int64_t size = width_of(argument.dtype, true);
    if (is(argument.kind, "tensor")) {
      size_t count = put_tensor(writer, true, position, &argument, &size);
      put_word(writer, size);
      put_word(writer, (int64_t)count);
      put_tensor(writer, false, position, &argument, &size);
      continue;
    }
    if (!size) unusable(writer, argument.name, "how such a number is packed is not known");
    put_word(writer, size), put_word(writer, 1);
    struct leaf leaf = {position, is_whole(argument.dtype) ? LEAF_NUMBER : LEAF_BITS, 0};
    put_place(writer, 0, size, (struct later){.leaf = leaf});
  }
}
