/* Launches: what a checked call launches, worked out from its numbers and given to the driver. */
#include <stdio.h>
#include <string.h>

#include "device_code.h"

enum { LARGEST = 232448 };         /* bytes of shared memory: the most that a kernel may have */
enum { NOWHERE = -1 };             /* no device whose stream is given */
enum { CLUSTER = 4, OVERLAP = 6 }; /* attributes of a launch */

typedef struct {
  int32_t id, padding;
  union {
    int32_t number;
    uint32_t cluster[3];
    unsigned char bytes[64];
  } value;
} launch_attribute;
struct launch_config {
  uint32_t grid[3], block[3], shared;
  void *stream;
  launch_attribute *attributes;
  uint32_t count;
};

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
    if (operation == CONSTANT) {
      *++top = *code++;
      continue;
    }
    if (operation == LEAF) {
      *++top = c->slots[word >> 8];
      continue;
    }
    int64_t b = *top--, a = *top;
    switch (operation) {
    case ADD:
      a = (int64_t)((uint64_t)a + (uint64_t)b);
      break;
    case SUB:
      a = (int64_t)((uint64_t)a - (uint64_t)b);
      break;
    case MUL:
      a = (int64_t)((uint64_t)a * (uint64_t)b);
      break;
    case FLOOR_DIV:
    case CEIL_DIV:
    case MOD:
      if (b <= 0) {
        *sound = 0;
        a = 0;
        break;
      }
      if (operation == FLOOR_DIV)
        a = floored(a, b);
      else if (operation == CEIL_DIV)
        a = floored(a, b) + (a % b != 0);
      else
        a -= floored(a, b) * b;
      break;
    case MIN:
      a = a < b ? a : b;
      break;
    case MAX:
      a = a > b ? a : b;
      break;
    case AND:
      a &= b;
      break;
    case SHIFT:
      a = (int64_t)((uint64_t)a >> (b & 63));
      break;
    case AT_LEAST:
      a = a >= b;
      break;
    case LOW:
      if (b >= 1 && b < 64) a = (int64_t)((uint64_t)a << (64 - b)) >> (64 - b);
      break;
    case FLOAT_MUL:
      a = float_product(a, b);
      break;
    }
    *top = a;
  }
}

static int refuse(const host_program *p, const char *what, const int64_t *found, const char *most) {
  char message[256];
  snprintf(message, sizeof message,
           "the %s would be (%lld, %lld, %lld), of at most %s and at least 1: give other sizes", what,
           (long long)found[0], (long long)found[1], (long long)found[2], most);
  return raise_error(p, "LaunchError", message);
}

static int unsound(const host_program *p) {
  return raise_error(p, "LaunchError", "the host program divides by zero, or by less: give other sizes");
}

static int extent(const call *c, const int64_t *at, int *sound, int64_t x, int64_t y, int64_t z, int64_t *out) {
  const int64_t most[3] = {x, y, z};
  int fits = 1;
  for (int i = 0; i < 3; ++i) out[i] = evaluate(c, at[i], sound), fits &= 1 <= out[i] && out[i] <= most[i];
  return fits;
}

static int make(const call *c, int number, void *stream, int in_first) {
  host_program *p = (host_program *)c->program;
  const step *s = &p->steps[number];
  int sound = 1;
  int64_t grid[3], block[3], cluster[3];
  if (!evaluate(c, s->when, &sound) && sound) return 0;
  int fits = extent(c, s->extents, &sound, INT32_MAX, 65535, 65535, grid);
  int block_fits = extent(c, s->extents + 3, &sound, 1024, 1024, 64, block);
  int cluster_fits = extent(c, s->extents + 6, &sound, 16, 16, 16, cluster);
  int64_t shared = evaluate(c, s->shared, &sound);
  if (!sound) return unsound(p);
  if (!fits) return refuse(p, "grid", grid, "(2147483647, 65535, 65535)");
  if (!block_fits) return refuse(p, "block", block, "(1024, 1024, 64)");
  if (!cluster_fits) return refuse(p, "cluster", cluster, "(16, 16, 16)");
  if (shared < 0 || shared > LARGEST) {
    char message[128];
    snprintf(message, sizeof message, "%lld bytes of shared memory, of at most %d: give other sizes", (long long)shared,
             LARGEST);
    return raise_error(p, "LaunchError", message);
  }
  _Alignas(16) unsigned char bytes[BYTES + 8 * PARAMETERS];
  void *parameters[PARAMETERS + 1], *kernel;
  unsigned char *next = bytes;
  for (int i = 0; i < s->parameter_count; ++i) {
    int64_t size = s->parameters[i].size, count = s->parameters[i].word_count;
    parameters[i] = next;
    memset(next, 0, (size_t)size);
    const int64_t *word = p->code + s->parameters[i].words;
    for (int64_t k = 0; k < count; ++k, word += 3) {
      int64_t value = evaluate(c, word[2], &sound);
      memcpy(next + word[0], &value, (size_t)word[1]); /* little-endian, as every host of these GPUs is */
    }
    next += (size + 7) / 8 * 8;
  }
  if (!sound) return unsound(p);
  int status = prepare_kernel(p, number, c->device, (int)shared, &kernel);
  if (status) return status;
  launch_attribute attributes[2];
  struct launch_config config = {.stream = stream, .shared = (uint32_t)shared, .attributes = attributes};
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
  void *function = in_first ? function_of(p, number, c->device, kernel) : kernel;
  status = p->driver.launch(&config, function, parameters, NULL);
  if (status && function != kernel)
    status = p->driver.launch(&config, kernel, parameters, NULL); /* a stream of another */
  return status ? driver_failed(p, "cuLaunchKernelEx", status) : 0;
}

static int run(host_program *p, const TVMFFIAny *values, int32_t count, TVMFFIAny *result, int32_t on, void *stream) {
  call c;
  int entered = 0, in_first, status = host_program_check(&c, p, values, count);
  result->type_index = kTVMFFINone, result->zero_padding = 0, result->v_int64 = 0;
  if (status) return status;
  if (c.device < 0 || c.device >= DEVICES)
    return raise_error(p, "ValueError", "there is no such device: pass tensors of one of this machine's");
  in_first = in_first_context(p, c.device);
  if (!in_first && (status = enter_device(p, c.device, &entered))) return status;
  if (on != c.device) stream = p->stream(kDLCUDA, c.device);
  for (int i = 0; !status && i < p->step_count; ++i) status = make(&c, i, stream, in_first);
  void *context;
  if (entered) p->driver.pop(&context);
  return status;
}

int host_program_call(void *self, const TVMFFIAny *values, int32_t count, TVMFFIAny *result) {
  return run(self, values, count, result, NOWHERE, NULL);
}

int host_program_call_on(void *self, const TVMFFIAny *values, int32_t count, TVMFFIAny *result, int32_t device,
                         void *stream) {
  return run(self, values, count, result, device, stream);
}

int host_program_ready(host_program *p, int32_t device) {
  int entered, status;
  void *kernel, *context;
  if (device < 0 || device >= DEVICES)
    return raise_error(p, "ValueError", "there is no such device: name one of this machine's");
  if ((status = enter_device(p, device, &entered))) return status;
  for (int i = 0; !status && i < p->step_count; ++i) status = prepare_kernel(p, i, device, 0, &kernel);
  if (entered) p->driver.pop(&context);
  return status;
}
