/* The arguments of a call, packed as tvm_ffi packs them: each kind that is packed here becomes exactly what tvm_ffi would
 * make of it, and any other is refused, so that the call goes to tvm_ffi itself. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <tvm/ffi/extra/c_env_api.h>

#include "python_abi.h"

enum { ARGUMENTS = 64, EXTENTS = 512, KNOWN_TYPES = 8, KNOWN_TUPLES = 32, KNOWN_KINDS = 16, MEMBERS = 32, DEPTH = 4, HELD = 256 };
#define NOWHERE ((surroundings){.device = {(DLDeviceType)-1, 0}})

/* Where tensors live: the device of the first one that is not on the CPU (its type is -1 while there is none), the
 * stream that its owner works on, and the exchange of the owner. */
typedef struct {
  DLDevice device;
  void *stream;
  const DLPackExchangeAPI *exchange;
} surroundings;

/* One call: what its arguments became. Shapes and strides are copied, since another thread may resize a tensor once
 * the interpreter is let go. */
typedef struct {
  object *kernel;
  TVMFFIAny args[ARGUMENTS];
  DLTensor tensors[ARGUMENTS];
  int64_t extents[EXTENTS];
  TVMFFIObjectHandle held[HELD]; /* what tuples and the tensors in them became */
  int tensor_count, extent_count, held_count;
  surroundings around;
} frame;

/* Types whose exchange is known, types of named tuples, and types of which it is known whether they stand for numbers.
 * Each is held for good, so that its address means no other type. */
static struct {
  object *type;
  const DLPackExchangeAPI *exchange;
} known[KNOWN_TYPES];
static object *known_tuples[KNOWN_TUPLES];
enum { NO_NUMBER, AN_INT, A_FLOAT };
static struct {
  object *type;
  int kind;
} known_kinds[KNOWN_KINDS];

/* Whether an object has an attribute. PyObject_HasAttrString prints, since Python 3.13, what the look-up raises. */
static int has(object *one, const char *name) {
  object *found = PyObject_GetAttrString(one, name);
  if (!found) PyErr_Clear();
  Py_DecRef(found);
  return found != NULL;
}

/* The exchange of a type that is seen for the first time, or null where tvm_ffi treats it in another way. */
static const DLPackExchangeAPI *learn(object *type) {
  static const char *const capsule_name = "dlpack_exchange_api";
  if (has(type, "__tvm_ffi_object__")) return NULL;
  object *capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
  const DLPackExchangeAPI *exchange = NULL;
  if (capsule && PyCapsule_IsValid(capsule, capsule_name)) exchange = PyCapsule_GetPointer(capsule, capsule_name);
  if (!capsule) PyErr_Clear();
  Py_DecRef(capsule);
  while (exchange && exchange->header.version.major != DLPACK_MAJOR_VERSION)
    exchange = (const DLPackExchangeAPI *)exchange->header.prev_api;
  if (!exchange || !exchange->dltensor_from_py_object_no_sync || !exchange->current_work_stream) return NULL;
  for (int i = 0; i < KNOWN_TYPES; ++i) {
    if (!known[i].type) {
      Py_IncRef(type);
      known[i].type = type, known[i].exchange = exchange;
      break;
    }
  }
  return exchange;
}

static const DLPackExchangeAPI *exchange_of(object *type) {
  for (int i = 0; i < KNOWN_TYPES && known[i].type; ++i)
    if (known[i].type == type) return known[i].exchange;
  for (int i = 0; i < KNOWN_KINDS && known_kinds[i].type; ++i)
    if (known_kinds[i].type == type && known_kinds[i].kind != NO_NUMBER) return NULL;
  return learn(type);
}

static int note_device(surroundings *around, DLDevice device, const DLPackExchangeAPI *exchange) {
  if (device.device_type != kDLCPU && (int)around->device.device_type == -1) {
    if (exchange->current_work_stream(device.device_type, device.device_id, &around->stream)) return 0;
    around->device = device;
  }
  around->exchange = exchange;
  return 1;
}

static int pack_tensor(frame *call, object *argument, const DLPackExchangeAPI *exchange, TVMFFIAny *out) {
  DLTensor *tensor = &call->tensors[call->tensor_count++];
  if (exchange->dltensor_from_py_object_no_sync(argument, tensor)) return 0;
  int rank = tensor->ndim;
  if (rank < 0 || rank > (EXTENTS - call->extent_count) / 2) return 0;
  int64_t *shape = &call->extents[call->extent_count], *strides = shape + rank, compact = 1;
  call->extent_count += 2 * rank;
  for (int i = rank - 1; i >= 0; --i) {
    shape[i] = tensor->shape[i];
    strides[i] = tensor->strides ? tensor->strides[i] : compact;
    compact *= shape[i];
  }
  tensor->shape = shape, tensor->strides = strides;
  if (!note_device(&call->around, tensor->device, exchange)) return 0;
  out->type_index = kTVMFFIDLTensorPtr;
  out->v_ptr = tensor;
  return 1;
}

/* Whether an argument is a number or None. */
static int pack_plain(object *argument, TVMFFIAny *out) {
  object *type = argument->type;
  int overflow = 0;
  out->zero_padding = 0;
  out->v_int64 = 0;
  if (type == &PyLong_Type) {
    out->type_index = kTVMFFIInt;
    out->v_int64 = PyLong_AsLongLongAndOverflow(argument, &overflow);
    return !overflow;
  }
  if (type == &PyFloat_Type) {
    out->type_index = kTVMFFIFloat;
    out->v_float64 = PyFloat_AsDouble(argument);
    return 1;
  }
  if (type == &PyBool_Type) {
    out->type_index = kTVMFFIBool;
    out->v_int64 = argument == &_Py_TrueStruct;
    return 1;
  }
  out->type_index = kTVMFFINone;
  return argument == &_Py_NoneStruct;
}

static void forget_raised(void) {
  TVMFFIObjectHandle error = NULL;
  TVMFFIErrorMoveFromRaised(&error);
  if (error) TVMFFIObjectDecRef(error);
}

/* Whether a type is tuple, or a class of named tuples that tvm_ffi takes for nothing else. */
static int is_tuple_type(object *type) {
  static const char *const others[] = {"__tvm_ffi_object__", "__dlpack_c_exchange_api__", "__cuda_stream__",
                                       "__dlpack__"};
  if (type == &PyTuple_Type) return 1;
  if (!(PyType_GetFlags(type) & TYPE_IS_TUPLE) || type->type != &PyType_Type) return 0;
  int free_slot = 0;
  for (; free_slot < KNOWN_TUPLES && known_tuples[free_slot]; ++free_slot)
    if (known_tuples[free_slot] == type) return 1;
  object *bases = PyObject_GetAttrString(type, "__mro__");
  int plain = bases && PyTuple_Size(bases) == 3; /* the class, tuple, object: nothing is mixed in */
  if (!bases) PyErr_Clear();
  Py_DecRef(bases);
  for (size_t i = 0; plain && i < sizeof others / sizeof *others; ++i) plain = !has(type, others[i]);
  if (plain && free_slot < KNOWN_TUPLES) Py_IncRef(type), known_tuples[free_slot] = type;
  return plain;
}

/* Keep an object until the call is over; where there is no room, it is let go at once. */
static int hold(frame *call, TVMFFIObjectHandle handle) {
  if (call->held_count == HELD) return TVMFFIObjectDecRef(handle), 0;
  call->held[call->held_count++] = handle;
  return 1;
}

/* Whether tvm_ffi takes an object for an int or a float, by its method: Python knows, and is asked once a type. */
static int number_kind(object *kernel, object *argument) {
  int slot = 0, overflow = 0, kind = NO_NUMBER;
  for (; slot < KNOWN_KINDS && known_kinds[slot].type; ++slot)
    if (known_kinds[slot].type == argument->type) return known_kinds[slot].kind;
  if (slot == KNOWN_KINDS) return NO_NUMBER;
  object *how = PyObject_GetAttrString(kernel, "_number_kind");
  object *found = how ? PyObject_CallFunctionObjArgs(how, argument, NULL) : NULL;
  if (found) kind = (int)PyLong_AsLongLongAndOverflow(found, &overflow);
  else PyErr_Clear();
  Py_DecRef(how), Py_DecRef(found);
  /* Python code ran, and another thread may have learned a type meanwhile. */
  for (slot = 0; slot < KNOWN_KINDS && known_kinds[slot].type; ++slot)
    if (known_kinds[slot].type == argument->type) return kind;
  if (slot < KNOWN_KINDS) {
    Py_IncRef(argument->type);
    known_kinds[slot].type = argument->type, known_kinds[slot].kind = kind;
  }
  return kind;
}

static int pack_number(object *kernel, object *argument, TVMFFIAny *out) {
  int kind = number_kind(kernel, argument), packed = 0, overflow = 0;
  if (kind == NO_NUMBER) return 0;
  object *how = PyObject_GetAttrString(argument, kind == AN_INT ? "__tvm_ffi_int__" : "__tvm_ffi_float__");
  object *value = how ? PyObject_CallFunctionObjArgs(how, NULL) : NULL;
  out->zero_padding = 0;
  out->v_int64 = 0;
  if (value && kind == AN_INT && PyType_GetFlags(value->type) & TYPE_IS_INT) {
    out->type_index = kTVMFFIInt;
    out->v_int64 = PyLong_AsLongLongAndOverflow(value, &overflow);
    packed = !overflow;
  } else if (value && kind == A_FLOAT && value->type == &PyFloat_Type) {
    out->type_index = kTVMFFIFloat;
    out->v_float64 = PyFloat_AsDouble(value);
    packed = 1;
  }
  Py_DecRef(how), Py_DecRef(value);
  return packed;
}

/* A tensor in a tuple: an object that owns it, since an array may outlive the call. */
static int pack_owned(frame *call, object *argument, surroundings *around, TVMFFIAny *out) {
  const DLPackExchangeAPI *exchange = exchange_of(argument->type);
  DLManagedTensorVersioned *managed = NULL;
  TVMFFIObjectHandle handle = NULL;
  if (!exchange || !exchange->managed_tensor_from_py_object_no_sync) return 0;
  if (exchange->managed_tensor_from_py_object_no_sync(argument, &managed)) return 0;
  int placed = note_device(around, managed->dl_tensor.device, exchange);
  int status = TVMFFITensorFromDLPackVersioned(managed, 0, 0, &handle);
  if (status) {
    forget_raised();
    if (managed->deleter) managed->deleter(managed);
    return 0;
  }
  out->type_index = kTVMFFITensor;
  out->v_obj = handle;
  return hold(call, handle) && placed;
}

/* A tuple becomes an array, as tvm_ffi makes it: a call takes the place of its tensors where it has none itself. */
static int pack_tuple(frame *call, object *tuple, surroundings *outer, int depth, TVMFFIAny *out) {
  static TVMFFIObjectHandle make_array;
  TVMFFIAny members[MEMBERS], made = {.type_index = kTVMFFINone};
  surroundings around = NOWHERE;
  intptr_t count = PyTuple_Size(tuple);
  if (count > MEMBERS || depth > DEPTH) return 0;
  for (intptr_t i = 0; i < count; ++i) {
    object *member = PyTuple_GetItem(tuple, i);
    if (pack_plain(member, &members[i])) continue;
    int packed = is_tuple_type(member->type) ? pack_tuple(call, member, &around, depth + 1, &members[i])
                 : exchange_of(member->type) ? pack_owned(call, member, &around, &members[i])
                                             : pack_number(call->kernel, member, &members[i]);
    if (!packed) return 0;
  }
  int status = make_array ? 0 : TVMFFIFunctionGetGlobal(&(TVMFFIByteArray){"ffi.Array", 9}, &make_array);
  if (!status) status = make_array ? TVMFFIFunctionCall(make_array, members, (int32_t)count, &made) : 0;
  if (status) forget_raised();
  if (made.type_index != kTVMFFIArray || !hold(call, made.v_obj)) return 0;
  if ((int)outer->device.device_type == -1) outer->device = around.device, outer->stream = around.stream;
  if (!outer->exchange) outer->exchange = around.exchange;
  *out = made;
  return 1;
}

/* Whether an argument is of a kind that is packed here; where it is not, there may be a Python error to forget. */
static int pack(frame *call, object *argument, TVMFFIAny *out) {
  if (pack_plain(argument, out)) return 1;
  if (is_tuple_type(argument->type)) return pack_tuple(call, argument, &call->around, 1, out);
  const DLPackExchangeAPI *exchange = exchange_of(argument->type);
  return exchange ? pack_tensor(call, argument, exchange, out) : pack_number(call->kernel, argument, out);
}

static void release(frame *call) {
  while (call->held_count) TVMFFIObjectDecRef(call->held[--call->held_count]);
}
