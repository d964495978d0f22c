/* Checks: the arguments of a call, checked as an object's host code checks them, in the same order and words. */
#include <stdio.h>
#include <string.h>

#include "opened_program.h"

static int wrong(const call *c, int place, const char *kind, const char *what, const char *expected) {
  char message[TEXT];
  snprintf(message, sizeof message, "%s on argument #%d%s, expected %s", what, place,
           text(c->program, c->program->signature), expected);
  return raise_error(c->program, kind, message);
}

static void dim_name(const call *c, int place, int dim, char *out, size_t room) {
  const argument *a = &c->program->arguments[place];
  if (dim < a->rank)
    snprintf(out, room, "%s.shape[%d]", text(c->program, a->name), dim);
  else
    snprintf(out, room, "%s.strides[%d]", text(c->program, a->name), dim - a->rank);
}

static int check_range(const call *c, int place, const char *name, int64_t dtype, int64_t least, int64_t most,
                       int64_t found) {
  if (least <= found && found <= most) return 0;
  char what[256], expected[160];
  snprintf(what, sizeof what, "Out of bound %s", name);
  snprintf(expected, sizeof expected, "to be in %s range [%lld, %lld]", text(c->program, dtype), (long long)least,
           (long long)most);
  return wrong(c, place, "ValueError", what, expected);
}

static int check_dim(call *c, int place, int dim, int64_t found) {
  const host_program *p = c->program;
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
  const host_program *p = c->program;
  const argument *a = &p->arguments[place];
  const DLTensor *t;
  char expected[256];
  if (value->type_index == kTVMFFIDLTensorPtr)
    t = value->v_ptr;
  else if (value->type_index == kTVMFFITensor)
    t = (const DLTensor *)((const char *)value->v_obj + sizeof(TVMFFIObject));
  else
    return wrong(c, place, "TypeError", "Mismatched type", "Tensor");
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
    span = (int64_t)((uint64_t)span + ((uint64_t)shape[i] - 1) * (uint64_t)strides[i]);
  }
  for (int i = 0; i < a->rank; ++i)
    if (check_dim(c, place, i, shape[i])) return -1;
  for (int i = 0; a->strided && i < a->rank; ++i) /* the stride of an extent of 1 is never used */
    if (shape[i] != 1 && check_dim(c, place, a->rank + i, strides[i])) return -1;
  slot[0] = (int64_t)data, slot[1] = span;
  return 0;
}

static int take_number(call *c, int place, const TVMFFIAny *value) {
  const host_program *p = c->program;
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

/* Refuse a tensor with more elements than the program is known for. Sizes may be negative where a signature allows it.
 */
static int check_limit(const call *c, int place) {
  const host_program *p = c->program;
  const argument *a = &p->arguments[place];
  const int64_t *shape = c->slots + a->slot + 2;
  uint64_t elements = 1, limit = (uint64_t)p->limit;
  int below = 0;
  for (int i = 0; i < a->rank; ++i) {
    if (!shape[i]) return 0;
    below ^= shape[i] < 0;
  }
  for (int i = 0; i < a->rank && elements <= limit; ++i) {
    uint64_t size = shape[i] < 0 ? -(uint64_t)shape[i] : (uint64_t)shape[i];
    elements = size > limit / elements ? limit + 1 : elements * size;
  }
  if (elements <= limit || below) return 0;
  char message[512];
  snprintf(
      message, sizeof message,
      "%s has more than %lld elements, for which this cubin's launch is not known: call it in parts, or use the object",
      text(p, a->name), (long long)p->limit);
  return raise_error(p, "LaunchError", message);
}

int host_program_check(call *c, const host_program *p, const TVMFFIAny *values, int32_t count) {
  c->program = p;
  if (count != p->argument_count) {
    char message[TEXT];
    snprintf(message, sizeof message, "Expects %d parameters%s", p->argument_count, text(p, p->signature));
    return raise_error(p, "TypeError", message);
  }
  for (int i = 0; i < p->symbol_count; ++i) c->seen[i].argument = -1;
  c->first = -1, c->device = 0;
  for (int i = 0; i < count; ++i) {
    int kind = p->arguments[i].kind, status = 0;
    if (kind == TENSOR)
      status = take_tensor(c, i, &values[i]);
    else if (kind != NONE)
      status = take_number(c, i, &values[i]);
    else if (values[i].type_index != kTVMFFINone)
      status = wrong(c, i, "TypeError", "Mismatched type", "None");
    else
      c->slots[p->arguments[i].slot] = 0;
    if (status) return status;
  }
  for (int i = 0; p->limit && i < count; ++i)
    if (p->arguments[i].kind == TENSOR && check_limit(c, i)) return -1;
  return 0;
}
