/* Reading: the code of a host program, of which nothing is believed before it was looked at. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opened_program.h"

enum { MAGIC = 0x50524731, HEAD = 8 };

/* The words of a program, read in order. failed is set where they end too soon or a number is out of its range. */
typedef struct {
  const host_program *p;
  int64_t at;
  const char *failed;
} reader;

static int64_t number(reader *r, int64_t least, int64_t most) {
  if (r->failed || r->at >= r->p->words) return r->failed = r->failed ? r->failed : "it ends too soon", least;
  int64_t value = r->p->code[r->at++];
  if (value < least || value > most) return r->failed = "a number is out of its range", least;
  return value;
}

static int64_t text_at(reader *r) { return number(r, 0, r->p->text_size - 1); }

/* An expression, by its offset: every operation known, every leaf a slot, the stack neither empty nor too deep. */
static int64_t expression(reader *r, int64_t slots) {
  int64_t start = r->at;
  for (int depth = 0;;) {
    int64_t word = number(r, 0, SLOTS << 8), operation = word & 255, leaf = word >> 8;
    if (r->failed) return 0;
    if (operation >= OPERATIONS || (leaf && operation != LEAF)) return r->failed = "an operation is not known", 0;
    if (operation == END) {
      if (depth != 1) return r->failed = "an expression is not one number", 0;
      return start;
    }
    if (operation == CONSTANT)
      number(r, INT64_MIN, INT64_MAX), ++depth;
    else if (operation == LEAF) {
      if (leaf >= slots) return r->failed = "a leaf is not known", 0;
      ++depth;
    } else
      --depth;
    if (depth < 1 || depth > DEPTH) return r->failed = "an expression needs too much room", 0;
  }
}

static void read_argument(reader *r, argument *a, int64_t *slots, int symbols) {
  a->kind = (int)number(r, NONE, FLOAT64);
  a->name = text_at(r), a->dtype = text_at(r), a->device = text_at(r);
  a->rank = (int)number(r, 0, RANK);
  a->device_type = (int)number(r, 0, 64), a->code = (int)number(r, 0, 255), a->bits = (int)number(r, 0, 255);
  a->lanes = (int)number(r, 0, 255), a->strided = (int)number(r, 0, 1), a->alignment = number(r, 0, 1 << 20),
  a->divisibility = number(r, 0, 1LL << 31);
  a->least = number(r, INT64_MIN, INT64_MAX), a->most = number(r, INT64_MIN, INT64_MAX);
  a->slot = *slots;
  *slots += a->kind == TENSOR ? 2 + 2 * a->rank : 1;
  if (*slots > SLOTS) r->failed = "it has too many sizes";
  a->dims = r->at;
  for (int i = 0; !r->failed && i < a->rank * (1 + a->strided); ++i)
    if (number(r, 0, 1))
      number(r, 0, symbols - 1);
    else
      number(r, INT64_MIN, INT64_MAX);
}

static void read_step(reader *r, step *s, int64_t slots) {
  int64_t total = 0;
  s->name = text_at(r), s->overlap = (int)number(r, 0, 1);
  s->when = expression(r, slots);
  for (int i = 0; i < 9; ++i) s->extents[i] = expression(r, slots);
  s->shared = expression(r, slots);
  s->parameter_count = (int)number(r, 0, PARAMETERS);
  for (int i = 0; !r->failed && i < s->parameter_count; ++i) {
    total += s->parameters[i].size = number(r, 0, BYTES);
    s->parameters[i].word_count = number(r, 0, BYTES);
    s->parameters[i].words = r->at;
    if (total > BYTES) r->failed = "its parameters are too long";
    for (int64_t k = 0; !r->failed && k < s->parameters[i].word_count; ++k) {
      int64_t offset = number(r, 0, BYTES), width = number(r, 1, 8), from = number(r, 0, r->p->words - 1);
      if (offset + width > s->parameters[i].size) r->failed = "a word ends after its parameter";
      reader inner = {r->p, from, r->failed};
      expression(&inner, slots);
      r->failed = inner.failed;
    }
  }
}

static const char *read_program(host_program *p, const char *end) {
  reader r = {p, 0, NULL};
  int64_t slots = 0;
  number(&r, MAGIC, MAGIC), number(&r, p->words, p->words), number(&r, p->text_size, p->text_size);
  p->signature = text_at(&r), p->limit = number(&r, 0, 1LL << 62);
  p->argument_count = (int)number(&r, 0, ARGUMENTS);
  p->symbol_count = (int)number(&r, 0, SYMBOLS), p->step_count = (int)number(&r, 0, STEPS);
  if (!r.failed && (p->text_size < 1 || end[-1])) r.failed = "its texts do not end";
  if (r.failed) return r.failed;
  p->symbols = calloc((size_t)p->symbol_count + 1, sizeof *p->symbols);
  if (!p->symbols) return "there is no memory for it";
  for (int i = 0; i < p->symbol_count; ++i) {
    symbol *s = &p->symbols[i];
    s->dtype = text_at(&r), s->divisibility = number(&r, 0, 1LL << 31);
    s->least = number(&r, INT64_MIN, INT64_MAX), s->most = number(&r, INT64_MIN, INT64_MAX);
  }
  for (int i = 0; !r.failed && i < p->argument_count; ++i) read_argument(&r, &p->arguments[i], &slots, p->symbol_count);
  for (int i = 0; !r.failed && i < p->step_count; ++i) read_step(&r, &p->steps[i], slots);
  return r.failed;
}

host_program *host_program_open(const void *code, size_t size, const void *cubin, size_t cubin_size,
                                const struct host_program_callees *callees, char *error, size_t room) {
  _Static_assert(sizeof(driver_functions) == HOST_PROGRAM_DRIVER_COUNT * sizeof(void *), "one pointer for each name");
  int64_t head[3] = {0};
  const char *why = NULL;
  host_program *p = calloc(1, sizeof *p);
  if (size >= sizeof head) memcpy(head, code, sizeof head);
  if (!p)
    why = "there is no memory for it";
  else if (size < 8 * HEAD || size > 1 << 26 || head[0] != MAGIC)
    why = "it is none that this version can read";
  else if (head[1] < HEAD || head[2] < 1 || head[1] > (int64_t)size / 8 || head[2] != (int64_t)size - head[1] * 8)
    why = "its size is not what it says";
  else {
    p->code = malloc(size), p->cubin = calloc(1, cubin_size + 1); /* a text ends, too */
    if (!p->code || !p->cubin)
      why = "there is no memory for it";
    else {
      memcpy(p->code, code, size), memcpy(p->cubin, cubin, cubin_size);
      memcpy(&p->driver, callees->driver, sizeof p->driver), p->raise = callees->raise, p->stream = callees->stream;
      p->words = head[1], p->text_size = head[2], p->text = (const char *)(p->code + p->words);
      why = read_program(p, (const char *)p->code + size);
    }
  }
  if (!why) return p;
  if (room) snprintf(error, room, "the host program cannot be used: %s", why);
  if (p) host_program_close(p);
  return NULL;
}

void host_program_close(host_program *p) {
  if (p->library) p->driver.unload(p->library);
  free(p->code), free(p->cubin), free(p->symbols), free(p);
}
