/* What the files of this folder share: an opened host program, and one call of it. */
#pragma once
#include <stdatomic.h>

#include "host_program.h"

enum {
  ARGUMENTS = 64,
  RANK = 10,
  SLOTS = 768,
  SYMBOLS = 512,
  STEPS = 8,
  PARAMETERS = 64,
  BYTES = 4096,
  DEPTH = 16,
  DEVICES = 64,
  TEXT = 4096
};
enum { NONE, TENSOR, INTEGER, BOOLEAN, FLOAT32, FLOAT64 }; /* what an argument is */
enum {
  END,
  CONSTANT,
  LEAF,
  ADD,
  SUB,
  MUL,
  FLOOR_DIV,
  CEIL_DIV,
  MOD,
  MIN,
  MAX,
  AND,
  SHIFT,
  AT_LEAST,
  LOW,
  FLOAT_MUL,
  OPERATIONS
};

struct launch_config; /* of launches.c */

typedef struct {
  int (*load)(void **library, const void *code, void *, void *, unsigned, void *, void *, unsigned);
  int (*unload)(void *library);
  int (*kernel)(void **kernel, void *library, const char *name);
  int (*parameter)(void *kernel, size_t place, size_t *offset, size_t *size);
  int (*set)(int attribute, int value, void *kernel, int device);
  int (*current)(int *device);
  int (*device)(int *device, int ordinal);
  int (*retain)(void **context, int device);
  int (*push)(void *context);
  int (*pop)(void **context);
  int (*launch)(const struct launch_config *config, void *kernel, void **parameters, void **extra);
  int (*number)(void *context, unsigned long long *number);
  int (*function)(void **function, void *kernel);
  int (*error_name)(int status, const char **text);
  int (*error_text)(int status, const char **text);
} driver_functions;

typedef struct {
  int kind, rank, device_type, code, bits, lanes, strided;
  int64_t name, slot, alignment, dtype, device, divisibility, least, most; /* texts are offsets */
  int64_t dims; /* pairs: whether a symbol, and its number or itself */
} argument;
typedef struct {
  int64_t least, most, divisibility, dtype;
} symbol;
typedef struct {
  int64_t name, when, extents[9], shared; /* expressions are offsets */
  int overlap, parameter_count;
  struct {
    int64_t size, words, word_count; /* an offset, and how many stand there */
  } parameters[PARAMETERS];
} step;

typedef struct host_program {
  int64_t *code;
  const char *text;
  int64_t words, text_size, limit, signature;
  int argument_count, symbol_count, step_count;
  argument arguments[ARGUMENTS];
  symbol *symbols;
  step steps[STEPS];
  driver_functions driver;
  __typeof__(&TVMFFIErrorSetRaisedFromCStr) raise;
  __typeof__(&TVMFFIEnvGetStream) stream;
  void *cubin, *library;
  _Atomic(void *) kernels[STEPS];
  _Atomic int prepared[STEPS][DEVICES]; /* 1 more than the shared memory that it may use there */
  _Atomic(void *) contexts[DEVICES];
  _Atomic uint64_t numbers[DEVICES];         /* of the first context of a device that a launch came from; 0 */
  _Atomic(void *) functions[STEPS][DEVICES]; /* of the kernels, in that context */
  atomic_flag loading;
} host_program;

/* One call: its checked numbers. */
typedef struct {
  const host_program *program;
  int device, first; /* the device of the tensors, and the first of them; -1 */
  int64_t slots[SLOTS];
  struct {
    int64_t value;
    int argument, dim;
  } seen[SYMBOLS];
} call;

static inline const char *text(const host_program *p, int64_t offset) { return p->text + offset; }

/* Leave an error with TVM-FFI; -1. */
static inline int raise_error(const host_program *p, const char *kind, const char *message) {
  p->raise(kind, message);
  return -1;
}

/* Check the arguments of a call of a program: its slots are filled in, and its device. 0, or -1 with an error raised.
 */
int host_program_check(call *c, const host_program *p, const TVMFFIAny *values, int32_t count);
