/* What writes the code of a host program: shared by program_code.c and plan_code.c. */
#ifndef PRECAST_PROGRAM_WRITER_H
#define PRECAST_PROGRAM_WRITER_H

#include "artifact.h"
#include "program.h"

struct writer {
  struct call *call;
  const struct artifact *artifact;
  struct arguments arguments;
  const struct json *symbols;
  int64_t *slots; /* by the arguments: where the numbers of each begin */
  struct builder words, texts, queue; /* the queue: what stands behind all steps */
};

/* A word of a parameter; its expression stands behind all steps, from a place that is written here later. */
struct later {
  size_t at;
  const struct json *expression; /* NULL: the leaf */
  struct leaf leaf;
};

void put_word(struct writer *writer, int64_t word);
/* The place of a text. */
int64_t keep_text(struct writer *writer, struct text text);
/* Grid, block, cluster and shared memory. */
void put_extents(struct writer *writer, const struct json *step);
void put_place(struct writer *writer, int64_t offset, int64_t width, struct later later);
void put_plan(struct writer *writer);

/* Fail: an argument cannot be taken. */
_Noreturn void unusable(const struct writer *writer, struct text name, const char *why);

#endif
