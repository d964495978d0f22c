/* Shared by all parts: memory that is freed at once, texts with a length, and how failures propagate.
 *
 * A function that fails does not return: fail() goes back to the attempt() that is running. So no part may hold a
 * descriptor, a lock or memory of its own across a call that can fail, unless it runs that call in an attempt(). */
#ifndef PRECAST_BASE_H
#define PRECAST_BASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "precast.h"

struct text {
  const char *data;
  size_t size;
};

#define TEXT(literal) ((struct text){(literal), sizeof(literal) - 1})

struct arena {
  struct block *blocks;
};

/* A call in progress: its memory, and where a failure returns to. */
struct call {
  struct arena *memory;
  jmp_buf *escape;
  precast_status status;
  const char *message;
  bool has_remedy; /* the message ends with what to do */
};

void arena_free(struct arena *arena);

/* Memory of zeros for count items of a size, which lives as long as the arena. */
void *take(struct call *call, size_t count, size_t size);

_Noreturn void fail(struct call *call, precast_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Fail again with the status and message of the attempt that just failed. */
_Noreturn void fail_again(struct call *call);

typedef void body(struct call *call, void *argument);

/* Run a body. False if it failed: then the call has the status and the message, which is in the memory of the call. */
bool attempt(struct call *call, body *run, void *argument);

/* The same in another arena, which is freed if the body fails. */
bool attempt_in(struct call *call, struct arena *memory, body *run, void *argument);

/* A text that grows. */
struct builder {
  struct call *call;
  char *data;
  size_t size, room;
};

void put(struct builder *builder, const char *format, ...) __attribute__((format(printf, 2, 3)));
void put_text(struct builder *builder, struct text text);
/* The text escaped, in single quotes: no content of a file moves a terminal's cursor or ends a line. */
void put_quoted(struct builder *builder, struct text text);
const char *built(struct builder *builder);

const char *format(struct call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* At most 80 bytes of a text, quoted. */
const char *quoted(struct call *call, struct text text);
char *terminated(struct call *call, struct text text);

struct text text_of(const char *terminated);
bool equal(struct text one, struct text other);
bool is(struct text text, const char *word);
int compare(struct text one, struct text other);
bool begins(struct text text, const char *word);

#endif
