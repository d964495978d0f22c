/* A writer of the code of host programs: numbers of 64 bits, then texts that end with a zero byte. An expression is a
 * list of operations for a stack. loader/launch/program_code.py writes the same. */
#ifndef PRECAST_PROGRAM_WRITER_H
#define PRECAST_PROGRAM_WRITER_H

#include "artifact.h"
#include "program.h"

enum { END = 0, CONSTANT = 1, LEAF = 2 }; /* what stands in an expression, beside functions */

struct writer {
  struct call *call;
  const struct artifact *artifact;
  struct arguments arguments;
  const struct json *symbols;
  int64_t *slots;                     /* by the arguments: where the numbers of each begin */
  struct builder words, texts, queue; /* the queue: what stands behind all steps */
};

/* A word of a parameter; its expression stands behind all steps, from a place that is written here later. */
struct later {
  size_t at;
  const struct json *expression; /* NULL: the leaf */
  struct leaf leaf;
};

size_t count_words(const struct writer *writer);
void put_word(struct writer *writer, int64_t word);
/* The place of a text. */
int64_t keep_text(struct writer *writer, struct text text);
/* Grid, block, cluster and shared memory. */
void put_extents(struct writer *writer, const struct json *step);
void put_expression(struct writer *writer, const struct json *expression);
void put_leaf(struct writer *writer, const struct leaf *leaf);
void put_constant(struct writer *writer, int64_t number);
/* A word of a parameter. */
void put_place(struct writer *writer, int64_t offset, int64_t width, struct later later);

/* Fail: an argument cannot be taken. */
_Noreturn void unusable(const struct writer *writer, struct text name, const char *why);

#endif
