/* Host programs: see host_program.h, and precast.loader.launch.programs.program_code for what the code is made of. */
#include "host_program.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/ffi/extra/c_env_api.h>

enum {
  MAGIC = 0x50524731, ARGUMENTS = 64, RANK = 10, SLOTS = 768, SYMBOLS = 512, STEPS = 8, PARAMETERS = 64, BYTES = 4096,
  DEPTH = 16, DEVICES = 64, TEXT = 4096, SMALL = 48 << 10, LARGEST = 232448, HEAD = 8
}; /* SMALL: as much shared memory as a kernel may have without being asked */
enum { NONE, TENSOR, INTEGER, BOOLEAN, FLOAT32, FLOAT64 };          /* what an argument is */
enum { MAX_SHARED = 8, NON_PORTABLE_CLUSTER = 14 };                 /* attributes of a kernel */
enum { CLUSTER = 4, OVERLAP = 6, NO_CONTEXT = 201 };                /* attributes of a launch; a status */
enum {
  END, CONSTANT, LEAF, ADD, SUB, MUL, FLOOR_DIV, CEIL_DIV, MOD, MIN, MAX, AND, SHIFT, AT_LEAST, LOW, FLOAT_MUL, OPERATIONS
};

typedef struct {
  int32_t id, padding;
  union {
    int32_t number;
    uint32_t cluster[3];
    unsigned char bytes[64];
  } value;
} launch_attribute;
typedef struct {
  uint32_t grid[3], block[3], shared;
  void *stream;
  launch_attribute *attributes;
  uint32_t count;
} launch_config;

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
  int (*launch)(const launch_config *config, void *kernel, void **parameters, void **extra);
  int (*error_name)(int status, const char **text);
  int (*error_text)(int status, const char **text);
} driver_functions;

typedef struct {
  int kind, rank, device_type, code, bits, lanes, strided;
  int64_t name, slot, alignment, dtype, device, divisibility, least, most; /* texts are offsets */
  int64_t dims;                                                           /* pairs: whether a symbol, and its number or itself */
} argument;
typedef struct { int64_t least, most, divisibility, dtype; } symbol;
typedef struct {
  int64_t name, when, extents[9], shared; /* expressions are offsets */
  int overlap, parameter_count;
  int64_t sizes[PARAMETERS], words[PARAMETERS], word_counts[PARAMETERS];
} step;

struct precast_program {
  int64_t *code;
  const char *text;
  int64_t words, text_size, limit, signature;
  int argument_count, symbol_count, step_count;
  argument arguments[ARGUMENTS];
  symbol *symbols;
  step steps[STEPS];
  driver_functions driver;
  void *cubin, *library;
  _Atomic(void *) kernels[STEPS];
  _Atomic int prepared[STEPS][DEVICES]; /* 1 more than the shared memory that it may use there */
  _Atomic(void *) contexts[DEVICES];
  atomic_flag loading;
};

/* One call: its checked numbers. */
typedef struct {
  const precast_program *program;
  int64_t slots[SLOTS];
  struct { int64_t value; int argument, dim; } seen[SYMBOLS];
  int device, first; /* the device of the tensors, and the first of them; -1 */
} call;

/* ---- errors ---- */

static int raise(const char *kind, const char *message) { return TVMFFIErrorSetRaisedFromCStr(kind, message), -1; }

static const char *text(const precast_program *p, int64_t offset) { return p->text + offset; }

static int wrong(const call *c, int place, const char *kind, const char *what, const char *expected) {
  char message[TEXT];
  snprintf(message, sizeof message, "%s on argument #%d%s, expected %s", what, place, text(c->program, c->program->signature),
           expected);
  return raise(kind, message);
}

static int failed(const precast_program *p, const char *what, int status) {
  const char *name = NULL, *words = NULL;
  char message[512];
  p->driver.error_name(status, &name), p->driver.error_text(status, &words);
  snprintf(message, sizeof message, "CUDA error %d (%s): %s, from %s", status, name ? name : "?", words ? words : "?", what);
  return raise("CUDADialectError", message);
}

/* ---- numbers ---- */

static int64_t floored(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0); }

static int64_t float_product(int64_t a, int64_t b) {
  uint32_t x = (uint32_t)a, y = (uint32_t)b, z;
  float left, right;
  memcpy(&left, &x, 4), memcpy(&right, &y, 4);
  left *= right;
  if (left != left) return 0x7fc00000; /* one NaN for all, whatever the processor would make */
  memcpy(&z, &left, 4);
  return z;
}

/* The number that the expression at an offset is; sound is cleared where it divides by what is not positive. */
static int64_t evaluate(const call *c, int64_t at, int *sound) {
  const int64_t *code = c->program->code + at;
  int64_t stack[DEPTH], *top = stack - 1;
  for (;;) {
    int64_t word = *code++;
    int operation = (int)(word & 255);
    if (operation == END) return *top;
    if (operation == CONSTANT) { *++top = *code++; continue; }
    if (operation == LEAF) { *++top = c->slots[word >> 8]; continue; }
    int64_t b = *top--, a = *top;
    switch (operation) {
      case ADD: a = (int64_t)((uint64_t)a + (uint64_t)b); break;
      case SUB: a = (int64_t)((uint64_t)a - (uint64_t)b); break;
      case MUL: a = (int64_t)((uint64_t)a * (uint64_t)b); break;
      case FLOOR_DIV: case CEIL_DIV: case MOD:
        if (b <= 0) { *sound = 0; a = 0; break; }
        if (operation == FLOOR_DIV) a = floored(a, b);
        else if (operation == CEIL_DIV) a = floored(a, b) + (a % b != 0);
        else a -= floored(a, b) * b;
        break;
      case MIN: a = a < b ? a : b; break;
      case MAX: a = a > b ? a : b; break;
      case AND: a &= b; break;
      case SHIFT: a = (int64_t)((uint64_t)a >> (b & 63)); break;
      case AT_LEAST: a = a >= b; break;
      case LOW: if (b >= 1 && b < 64) a = (int64_t)((uint64_t)a << (64 - b)) >> (64 - b); break;
      case FLOAT_MUL: a = float_product(a, b); break;
    }
    *top = a;
  }
}

/* ---- arguments: the same checks, in the same order and words, as an object's host code makes ---- */

static void dim_name(const call *c, int place, int dim, char *out, size_t room) {
  const argument *a = &c->program->arguments[place];
  if (dim < a->rank) snprintf(out, room, "%s.shape[%d]", text(c->program, a->name), dim);
  else snprintf(out, room, "%s.strides[%d]", text(c->program, a->name), dim - a->rank);
}

static int check_range(const call *c, int place, const char *name, int64_t dtype, int64_t least, int64_t most, int64_t found) {
  if (least <= found && found <= most) return 0;
  char what[256], expected[160];
  snprintf(what, sizeof what, "Out of bound %s", name);
  snprintf(expected, sizeof expected, "to be in %s range [%lld, %lld]", text(c->program, dtype), (long long)least, (long long)most);
  return wrong(c, place, "ValueError", what, expected);
}

static int check_dim(call *c, int place, int dim, int64_t found) {
  const precast_program *p = c->program;
  const int64_t *declared = p->code + p->arguments[place].dims + 2 * dim;
  char name[160], what[192], expected[192];
  if (!declared[0]) {
    if (found == declared[1]) return 0;
    dim_name(c, place, dim, name, sizeof name);
    snprintf(what, sizeof what, "Mismatched %s", name);
    snprintf(expected, sizeof expected, "to be %lld", (long long)declared[1]);
    return wrong(c, place, "ValueError", what, expected);
  }
  int64_t number = declared[1];
  const symbol *s = &p->symbols[number];
  if (c->seen[number].argument >= 0) {
    if (found == c->seen[number].value) return 0;
    dim_name(c, place, dim, name, sizeof name);
    snprintf(what, sizeof what, "Mismatched %s", name);
    dim_name(c, c->seen[number].argument, c->seen[number].dim, name, sizeof name);
    snprintf(expected, sizeof expected, "to match %s", name);
    return wrong(c, place, "ValueError", what, expected);
  }
  if (found < s->least || found > s->most) {
    dim_name(c, place, dim, name, sizeof name);
    return check_range(c, place, name, s->dtype, s->least, s->most, found);
  }
  if (s->divisibility > 1 && found % s->divisibility) {
    dim_name(c, place, dim, name, sizeof name);
    snprintf(what, sizeof what, "Invalid %s", name);
    snprintf(expected, sizeof expected, "to be divisible by %lld", (long long)s->divisibility);
    return wrong(c, place, "ValueError", what, expected);
  }
  c->seen[number].value = found, c->seen[number].argument = place, c->seen[number].dim = dim;
  return 0;
}

static int take_tensor(call *c, int place, const TVMFFIAny *value) {
  const precast_program *p = c->program;
  const argument *a = &p->arguments[place];
  const DLTensor *t;
  char expected[256];
  if (value->type_index == kTVMFFIDLTensorPtr) t = value->v_ptr;
  else if (value->type_index == kTVMFFITensor) t = (const DLTensor *)((const char *)value->v_obj + sizeof(TVMFFIObject));
  else return wrong(c, place, "TypeError", "Mismatched type", "Tensor");
  uint64_t data = (uint64_t)(uintptr_t)t->data + t->byte_offset;
  if (a->alignment > 1 && data % (uint64_t)a->alignment) {
    snprintf(expected, sizeof expected, "data alignment=%lld bytes", (long long)a->alignment);
    return wrong(c, place, "ValueError", "Misaligned Tensor data", expected);
  }
  if (c->first >= 0 && t->device.device_id != c->device) {
    snprintf(expected, sizeof expected, "to match %s.device.index", text(p, p->arguments[c->first].name));
    return wrong(c, place, "ValueError", "Mismatched device index", expected);
  }
  if (t->ndim != a->rank) {
    snprintf(expected, sizeof expected, "ndim=%d", a->rank);
    return wrong(c, place, "ValueError", "Mismatched Tensor", expected);
  }
  if ((int)t->device.device_type != a->device_type) {
    snprintf(expected, sizeof expected, "device_type=%s", text(p, a->device));
    return wrong(c, place, "ValueError", "Mismatched Tensor", expected);
  }
  if (t->dtype.code != a->code || t->dtype.bits != a->bits || t->dtype.lanes != a->lanes) {
    snprintf(expected, sizeof expected, "dtype=%s", text(p, a->dtype));
    return wrong(c, place, "ValueError", "Mismatched Tensor", expected);
  }
  if (c->first < 0) c->first = place, c->device = t->device.device_id;
  int64_t *slot = c->slots + a->slot, *shape = slot + 2, *strides = shape + a->rank, compact = 1, span = 1;
  for (int i = a->rank - 1; i >= 0; --i) {
    shape[i] = t->shape[i];
    strides[i] = t->strides ? t->strides[i] : compact;
    compact = (int64_t)((uint64_t)compact * (uint64_t)shape[i]);
    span = (int64_t)((uint64_t)span + (uint64_t)(shape[i] - 1) * (uint64_t)strides[i]);
  }
  for (int i = 0; i < a->rank; ++i)
    if (check_dim(c, place, i, shape[i])) return -1;
  for (int i = 0; a->strided && i < a->rank; ++i) /* the stride of an extent of 1 is never used */
    if (shape[i] != 1 && check_dim(c, place, a->rank + i, strides[i])) return -1;
  slot[0] = (int64_t)data, slot[1] = span;
  return 0;
}

static int take_number(call *c, int place, const TVMFFIAny *value) {
  const precast_program *p = c->program;
  const argument *a = &p->arguments[place];
  int whole = value->type_index == kTVMFFIInt || value->type_index == kTVMFFIBool;
  int64_t *slot = c->slots + a->slot;
  if (a->kind == FLOAT32 || a->kind == FLOAT64) {
    if (!whole && value->type_index != kTVMFFIFloat) return wrong(c, place, "TypeError", "Mismatched type", "float");
    double number = whole ? (double)value->v_int64 : value->v_float64;
    if (a->kind == FLOAT64) return memcpy(slot, &number, 8), 0;
    float rounded = (float)number;
    uint32_t bits;
    memcpy(&bits, &rounded, 4);
    return *slot = bits, 0;
  }
  if (!whole) return wrong(c, place, "TypeError", "Mismatched type", "int");
  if (check_range(c, place, "value", a->dtype, a->least, a->most, value->v_int64)) return -1;
  if (a->divisibility > 1 && value->v_int64 % a->divisibility) {
    char what[160], expected[64];
    snprintf(what, sizeof what, "Invalid %s", text(p, a->name));
    snprintf(expected, sizeof expected, "to be divisible by %lld", (long long)a->divisibility);
    return wrong(c, place, "ValueError", what, expected);
  }
  *slot = a->kind == BOOLEAN ? value->v_int64 != 0 : value->v_int64;
  return 0;
}

/* Refuse a tensor with more elements than the program is known for. */
static int check_limit(const call *c, int place) {
  const precast_program *p = c->program;
  const argument *a = &p->arguments[place];
  const int64_t *shape = c->slots + a->slot + 2;
  int64_t elements = 1;
  for (int i = 0; i < a->rank; ++i)
    if (!shape[i]) return 0;
  for (int i = 0; i < a->rank && elements <= p->limit; ++i)
    elements = shape[i] > p->limit / elements ? p->limit + 1 : elements * shape[i];
  if (elements <= p->limit) return 0;
  char message[512];
  snprintf(message, sizeof message,
           "%s has more than %lld elements, for which this cubin's launch is not known: call it in parts, or use the object",
           text(p, a->name), (long long)p->limit);
  return raise("LaunchError", message);
}

static int take(call *c, const TVMFFIAny *values, int32_t count) {
  const precast_program *p = c->program;
  if (count != p->argument_count) {
    char message[TEXT];
    snprintf(message, sizeof message, "Expects %d parameters%s", p->argument_count, text(p, p->signature));
    return raise("TypeError", message);
  }
  for (int i = 0; i < p->symbol_count; ++i) c->seen[i].argument = -1;
  c->first = -1, c->device = 0;
  for (int i = 0; i < count; ++i) {
    int kind = p->arguments[i].kind, status = 0;
    if (kind == TENSOR) status = take_tensor(c, i, &values[i]);
    else if (kind != NONE) status = take_number(c, i, &values[i]);
    else if (values[i].type_index != kTVMFFINone) status = wrong(c, i, "TypeError", "Mismatched type", "None");
    if (status) return status;
  }
  for (int i = 0; p->limit && i < count; ++i)
    if (p->arguments[i].kind == TENSOR && check_limit(c, i)) return -1;
  return 0;
}

/* ---- launches ---- */

static void lock(precast_program *p) { while (atomic_flag_test_and_set_explicit(&p->loading, memory_order_acquire)) sched_yield(); }
static void unlock(precast_program *p) { atomic_flag_clear_explicit(&p->loading, memory_order_release); }

/* Load the device code, and hold what it says of its parameters against the program: wrongly packed parameters would be
 * read as addresses. */
static int load(precast_program *p) {
  int status = 0;
  if (!p->library) {
    status = p->driver.load(&p->library, p->cubin, NULL, NULL, 0, NULL, NULL, 0);
    if (status) return p->library = NULL, failed(p, "cuLibraryLoadData", status);
  }
  for (int i = 0; i < p->step_count; ++i) {
    const step *s = &p->steps[i];
    void *kernel;
    if (atomic_load(&p->kernels[i])) continue;
    if ((status = p->driver.kernel(&kernel, p->library, text(p, s->name)))) return failed(p, "cuLibraryGetKernel", status);
    for (int k = 0; k <= s->parameter_count; ++k) {
      size_t offset, size;
      int more = !p->driver.parameter(kernel, (size_t)k, &offset, &size);
      if (more != (k < s->parameter_count) || (more && ((int64_t)size < s->sizes[k] || (int64_t)size >= s->sizes[k] + 8)))
        return raise("RuntimeError", "the device code takes other parameters than the host program packs: rebuild the cache");
    }
    atomic_store(&p->kernels[i], kernel);
  }
  return 0;
}

/* A kernel that may use so much shared memory on a device, and clusters of any size. */
static int prepare(precast_program *p, int i, int device, int shared, void **kernel) {
  *kernel = atomic_load_explicit(&p->kernels[i], memory_order_acquire);
  if (*kernel && atomic_load_explicit(&p->prepared[i][device], memory_order_acquire) > shared) return 0;
  int status = 0, handle = 0;
  lock(p);
  int found = load(p);
  *kernel = atomic_load(&p->kernels[i]);
  if (!found && atomic_load(&p->prepared[i][device]) <= shared) {
    status = p->driver.device(&handle, device);
    if (!status && shared > SMALL) status = p->driver.set(MAX_SHARED, shared, *kernel, handle);
    if (!status) status = p->driver.set(NON_PORTABLE_CLUSTER, 1, *kernel, handle);
    if (!status) atomic_store(&p->prepared[i][device], shared + 1);
  }
  unlock(p);
  return found ? found : status ? failed(p, "cuKernelSetAttribute", status) : 0;
}

/* Make a device's primary context current where another is; entered says whether it did. */
static int enter(precast_program *p, int device, int *entered) {
  int current, handle, status = p->driver.current(&current);
  *entered = 0;
  if (status && status != NO_CONTEXT && status != 3) return failed(p, "cuCtxGetDevice", status);
  int is_current = !status;
  if ((status = p->driver.device(&handle, device))) return failed(p, "cuDeviceGet", status);
  if (is_current && current == handle) return 0;
  void *context = atomic_load(&p->contexts[device]);
  if (!context) {
    if ((status = p->driver.retain(&context, handle))) return failed(p, "cuDevicePrimaryCtxRetain", status);
    atomic_store(&p->contexts[device], context);
  }
  if ((status = p->driver.push(context))) return failed(p, "cuCtxPushCurrent", status);
  return *entered = 1, 0;
}

static int refuse(const char *what, const int64_t *found, const char *most) {
  char message[256];
  snprintf(message, sizeof message, "the %s would be (%lld, %lld, %lld), of at most %s and at least 1: give other sizes", what,
           (long long)found[0], (long long)found[1], (long long)found[2], most);
  return raise("LaunchError", message);
}

static int unsound(void) { return raise("LaunchError", "the host program divides by zero, or by less: give other sizes"); }

static int extent(const call *c, const int64_t *at, int *sound, int64_t x, int64_t y, int64_t z, int64_t *out) {
  const int64_t most[3] = {x, y, z};
  int fits = 1;
  for (int i = 0; i < 3; ++i) out[i] = evaluate(c, at[i], sound), fits &= 1 <= out[i] && out[i] <= most[i];
  return fits;
}

static int make(const call *c, int number, void *stream) {
  precast_program *p = (precast_program *)c->program;
  const step *s = &p->steps[number];
  int sound = 1;
  int64_t grid[3], block[3], cluster[3];
  if (!evaluate(c, s->when, &sound) && sound) return 0;
  int fits = extent(c, s->extents, &sound, INT32_MAX, 65535, 65535, grid);
  int block_fits = extent(c, s->extents + 3, &sound, 1024, 1024, 64, block);
  int cluster_fits = extent(c, s->extents + 6, &sound, 16, 16, 16, cluster);
  int64_t shared = evaluate(c, s->shared, &sound);
  if (!sound) return unsound();
  if (!fits) return refuse("grid", grid, "(2147483647, 65535, 65535)");
  if (!block_fits) return refuse("block", block, "(1024, 1024, 64)");
  if (!cluster_fits) return refuse("cluster", cluster, "(16, 16, 16)");
  if (shared < 0 || shared > LARGEST) {
    char message[128];
    snprintf(message, sizeof message, "%lld bytes of shared memory, of at most %d: give other sizes", (long long)shared, LARGEST);
    return raise("LaunchError", message);
  }
  _Alignas(16) unsigned char bytes[BYTES + 8 * PARAMETERS];
  void *parameters[PARAMETERS + 1], *kernel;
  unsigned char *next = bytes;
  for (int i = 0; i < s->parameter_count; ++i) {
    parameters[i] = next;
    memset(next, 0, (size_t)s->sizes[i]);
    const int64_t *word = p->code + s->words[i];
    for (int64_t k = 0; k < s->word_counts[i]; ++k, word += 3) {
      int64_t value = evaluate(c, word[2], &sound);
      memcpy(next + word[0], &value, (size_t)word[1]); /* little-endian, as every host of these GPUs is */
    }
    next += (s->sizes[i] + 7) / 8 * 8;
  }
  if (!sound) return unsound();
  int status = prepare(p, number, c->device, (int)shared, &kernel);
  if (status) return status;
  launch_attribute attributes[2];
  launch_config config = {.stream = stream, .shared = (uint32_t)shared, .attributes = attributes};
  for (int i = 0; i < 3; ++i) config.grid[i] = (uint32_t)grid[i], config.block[i] = (uint32_t)block[i];
  if (cluster[0] * cluster[1] * cluster[2] != 1) {
    launch_attribute *a = &attributes[config.count++];
    memset(a, 0, sizeof *a);
    a->id = CLUSTER;
    for (int i = 0; i < 3; ++i) a->value.cluster[i] = (uint32_t)cluster[i];
  }
  if (s->overlap) {
    launch_attribute *a = &attributes[config.count++];
    memset(a, 0, sizeof *a);
    a->id = OVERLAP, a->value.number = 1;
  }
  status = p->driver.launch(&config, kernel, parameters, NULL);
  return status ? failed(p, "cuLaunchKernelEx", status) : 0;
}

#define EXPORT __attribute__((visibility("default")))

EXPORT int precast_program_call(void *self, const TVMFFIAny *values, int32_t count, TVMFFIAny *result) {
  precast_program *p = self;
  call c;
  c.program = p;
  int entered, status = take(&c, values, count);
  result->type_index = kTVMFFINone, result->zero_padding = 0, result->v_int64 = 0;
  if (status) return status;
  if (c.device < 0 || c.device >= DEVICES) return raise("ValueError", "there is no such device: pass tensors of one of this machine's");
  if ((status = enter(p, c.device, &entered))) return status;
  void *stream = TVMFFIEnvGetStream(kDLCUDA, c.device), *context;
  for (int i = 0; !status && i < p->step_count; ++i) status = make(&c, i, stream);
  if (entered) p->driver.pop(&context);
  return status;
}

EXPORT int precast_program_ready(precast_program *p, int32_t device) {
  int entered, status;
  void *kernel, *context;
  if (device < 0 || device >= DEVICES) return raise("ValueError", "there is no such device: name one of this machine's");
  if ((status = enter(p, device, &entered))) return status;
  for (int i = 0; !status && i < p->step_count; ++i) status = prepare(p, i, device, 0, &kernel);
  if (entered) p->driver.pop(&context);
  return status;
}

/* ---- opening: nothing of the code is believed ---- */

/* The words of a program, read in order. failed is set where they end too soon or a number is out of its range. */
typedef struct {
  const precast_program *p;
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
    if (operation == CONSTANT) number(r, INT64_MIN, INT64_MAX), ++depth;
    else if (operation == LEAF) {
      if (leaf >= slots) return r->failed = "a leaf is not known", 0;
      ++depth;
    } else --depth;
    if (depth < 1 || depth > DEPTH) return r->failed = "an expression needs too much room", 0;
  }
}

static void read_argument(reader *r, argument *a, int64_t *slots, int symbols) {
  a->kind = (int)number(r, NONE, FLOAT64);
  a->name = text_at(r), a->dtype = text_at(r), a->device = text_at(r);
  a->rank = (int)number(r, 0, RANK);
  a->device_type = (int)number(r, 0, 64), a->code = (int)number(r, 0, 255), a->bits = (int)number(r, 0, 255);
  a->lanes = (int)number(r, 0, 255), a->strided = (int)number(r, 0, 1), a->alignment = number(r, 0, 1 << 20), a->divisibility = number(r, 0, 1LL << 31);
  a->least = number(r, INT64_MIN, INT64_MAX), a->most = number(r, INT64_MIN, INT64_MAX);
  a->slot = *slots;
  *slots += a->kind == TENSOR ? 2 + 2 * a->rank : 1;
  if (*slots > SLOTS) r->failed = "it has too many sizes";
  a->dims = r->at;
  for (int i = 0; !r->failed && i < a->rank * (1 + a->strided); ++i)
    if (number(r, 0, 1)) number(r, 0, symbols - 1);
    else number(r, INT64_MIN, INT64_MAX);
}

static void read_step(reader *r, step *s, int64_t slots) {
  int64_t total = 0;
  s->name = text_at(r), s->overlap = (int)number(r, 0, 1);
  s->when = expression(r, slots);
  for (int i = 0; i < 9; ++i) s->extents[i] = expression(r, slots);
  s->shared = expression(r, slots);
  s->parameter_count = (int)number(r, 0, PARAMETERS);
  for (int i = 0; !r->failed && i < s->parameter_count; ++i) {
    total += s->sizes[i] = number(r, 0, BYTES);
    s->word_counts[i] = number(r, 0, BYTES);
    s->words[i] = r->at;
    if (total > BYTES) r->failed = "its parameters are too long";
    for (int64_t k = 0; !r->failed && k < s->word_counts[i]; ++k) {
      int64_t offset = number(r, 0, BYTES), width = number(r, 1, 8), from = number(r, 0, r->p->words - 1);
      if (offset + width > s->sizes[i]) r->failed = "a word ends after its parameter";
      reader inner = {r->p, from, r->failed};
      expression(&inner, slots);
      r->failed = inner.failed;
    }
  }
}

static const char *read_program(precast_program *p, const char *end) {
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

EXPORT precast_program *precast_program_open(const void *code, size_t size, const void *cubin, size_t cubin_size,
                                             void *const driver[PRECAST_DRIVER_COUNT], char *error, size_t room) {
  _Static_assert(sizeof(driver_functions) == PRECAST_DRIVER_COUNT * sizeof(void *), "one pointer for each name");
  int64_t head[3] = {0};
  const char *why = NULL;
  precast_program *p = calloc(1, sizeof *p);
  if (size >= sizeof head) memcpy(head, code, sizeof head);
  if (!p) why = "there is no memory for it";
  else if (size < 8 * HEAD || size > 1 << 26 || head[0] != MAGIC) why = "it is none that this version can read";
  else if (head[1] < HEAD || head[2] < 1 || head[1] > (int64_t)size / 8 || head[1] * 8 + head[2] != (int64_t)size) why = "its size is not what it says";
  else {
    p->code = malloc(size), p->cubin = malloc(cubin_size ? cubin_size : 1);
    if (!p->code || !p->cubin) why = "there is no memory for it";
    else {
      memcpy(p->code, code, size), memcpy(p->cubin, cubin, cubin_size);
      memcpy(&p->driver, driver, sizeof p->driver);
      p->words = head[1], p->text_size = head[2], p->text = (const char *)(p->code + p->words);
      why = read_program(p, (const char *)p->code + size);
    }
  }
  if (!why) return p;
  if (room) snprintf(error, room, "the host program cannot be used: %s", why);
  if (p) precast_program_close(p);
  return NULL;
}

EXPORT void precast_program_close(precast_program *p) {
  if (p->library) p->driver.unload(p->library);
  free(p->code), free(p->cubin), free(p->symbols), free(p);
}
