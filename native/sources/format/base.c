#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK  ((size_t)1 << 14)
#define QUOTED 80

struct block {
  struct block *next;
  size_t used, room;
  max_align_t data[];
};

void arena_free(struct arena *arena) {
  for (struct block *block = arena->blocks, *next; block; block = next) {
    next = block->next;
    free(block);
  }
  arena->blocks = NULL;
}

void *take(struct call *call, size_t count, size_t size) {
  size_t align = _Alignof(max_align_t), bytes;
  if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2)
    fail(call, PRECAST_OUT_OF_MEMORY, "there is not enough memory: free some");
  bytes = (bytes + align - 1) / align * align;
  struct block *block = call->memory->blocks;
  if (!block || block->room - block->used < bytes) {
    size_t room = bytes > BLOCK ? bytes : BLOCK;
    struct block *made = calloc(1, sizeof *made + room);
    if (!made) fail(call, PRECAST_OUT_OF_MEMORY, "there is not enough memory: free some");
    made->room = room;
    if (block && bytes > BLOCK) { /* the block at hand still has room for what is small */
      made->next = block->next, block->next = made;
    } else {
      made->next = block, call->memory->blocks = made;
    }
    block = made;
  }
  void *taken = (char *)block->data + block->used;
  block->used += bytes;
  return taken;
}

void fail(struct call *call, precast_status status, const char *text, ...) {
  call->status = status;
  call->message = text; /* where there is no memory for a better one */
  if (status != PRECAST_OUT_OF_MEMORY) {
    va_list arguments, again;
    va_start(arguments, text);
    va_copy(again, arguments);
    int size = vsnprintf(NULL, 0, text, arguments);
    char *message = take(call, (size_t)(size < 0 ? 0 : size) + 1, 1);
    vsnprintf(message, (size_t)(size < 0 ? 0 : size) + 1, text, again);
    va_end(again);
    va_end(arguments);
    call->status = status, call->message = message;
  }
  longjmp(*call->escape, 1);
}

void fail_again(struct call *call) { longjmp(*call->escape, 1); }

bool attempt(struct call *call, body *run, void *argument) {
  jmp_buf here, *outer = call->escape;
  struct arena *memory = call->memory;
  call->escape = &here;
  call->has_remedy = false;
  bool done = setjmp(here) == 0;
  if (done) run(call, argument);
  call->escape = outer;
  call->memory = memory;
  return done;
}

bool attempt_in(struct call *call, struct arena *memory, body *run, void *argument) {
  struct arena *outer = call->memory;
  call->memory = memory;
  bool done = attempt(call, run, argument);
  call->memory = outer;
  if (!done) {
    char *kept = call->status == PRECAST_OUT_OF_MEMORY ? NULL : strdup(call->message);
    arena_free(memory);
    call->message = "there is not enough memory: free some";
    if (kept) {
      char *message = NULL;
      size_t size = strlen(kept) + 1;
      struct block *block = calloc(1, sizeof *block + size);
      if (block) {
        block->room = block->used = size;
        message = memcpy(block->data, kept, size);
        block->next = outer->blocks, outer->blocks = block;
      }
      free(kept);
      if (message) return call->message = message, false;
    }
    call->status = PRECAST_OUT_OF_MEMORY;
  }
  return done;
}

static void reserve(struct builder *builder, size_t more) {
  if (builder->room - builder->size > more) return;
  size_t room = (builder->size + more + 1) * 2;
  char *data = take(builder->call, room, 1);
  if (builder->size) memcpy(data, builder->data, builder->size);
  builder->data = data, builder->room = room;
}

void put(struct builder *builder, const char *text, ...) {
  va_list arguments, again;
  va_start(arguments, text);
  va_copy(again, arguments);
  int size = vsnprintf(NULL, 0, text, arguments);
  va_end(arguments);
  if (size > 0) {
    reserve(builder, (size_t)size);
    vsnprintf(builder->data + builder->size, (size_t)size + 1, text, again);
    builder->size += (size_t)size;
  }
  va_end(again);
}

void put_text(struct builder *builder, struct text text) {
  reserve(builder, text.size);
  if (text.size) memcpy(builder->data + builder->size, text.data, text.size);
  builder->size += text.size;
}

void put_quoted(struct builder *builder, struct text text) {
  put(builder, "'");
  for (size_t i = 0; i < text.size; ++i) {
    unsigned char byte = (unsigned char)text.data[i];
    if (byte == '\\' || byte == '\'') {
      put(builder, "\\%c", byte);
    } else if (byte == '\n') {
      put(builder, "\\n");
    } else if (byte < 0x20 || byte >= 0x7f) {
      put(builder, "\\x%02x", byte);
    } else {
      put(builder, "%c", byte);
    }
  }
  put(builder, "'");
}

const char *built(struct builder *builder) {
  reserve(builder, 1);
  builder->data[builder->size] = 0;
  return builder->data;
}

const char *format(struct call *call, const char *text, ...) {
  va_list arguments, again;
  va_start(arguments, text);
  va_copy(again, arguments);
  int size = vsnprintf(NULL, 0, text, arguments);
  va_end(arguments);
  char *made = take(call, (size_t)(size < 0 ? 0 : size) + 1, 1);
  vsnprintf(made, (size_t)(size < 0 ? 0 : size) + 1, text, again);
  va_end(again);
  return made;
}

const char *quoted(struct call *call, struct text text) {
  struct builder builder = {.call = call};
  put_quoted(&builder, (struct text){text.data, text.size < QUOTED ? text.size : QUOTED});
  return built(&builder);
}

char *terminated(struct call *call, struct text text) {
  char *made = take(call, text.size + 1, 1);
  if (text.size) memcpy(made, text.data, text.size);
  return made;
}

struct text text_of(const char *word) { return (struct text){word, strlen(word)}; }

int compare(struct text one, struct text other) {
  size_t shorter = one.size < other.size ? one.size : other.size;
  int order = shorter ? memcmp(one.data, other.data, shorter) : 0;
  return order ? order : (one.size > other.size) - (one.size < other.size);
}

bool equal(struct text one, struct text other) { return compare(one, other) == 0; }

bool is(struct text text, const char *word) { return equal(text, text_of(word)); }

bool begins(struct text text, const char *word) {
  size_t size = strlen(word);
  return text.size >= size && !memcmp(text.data, word, size);
}
