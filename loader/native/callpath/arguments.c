#include "arguments.h"

#include "known_types.h"

enum { MEMBERS = 32, DEPTH = 4 }; /* of a tuple */
#define NOWHERE ((environment){.device = {(DLDeviceType)NO_DEVICE, 0}})

static int note_device(environment *where, DLDevice device, const DLPackExchangeAPI *exchange) {
  if (device.device_type != kDLCPU && (int)where->device.device_type == NO_DEVICE) {
    if (exchange->current_work_stream(device.device_type, device.device_id, &where->stream)) return 0;
    where->device = device;
  }
  where->exchange = exchange;
  return 1;
}

static int pack_tensor(packed_call *call, PyObject *argument, const DLPackExchangeAPI *exchange, TVMFFIAny *out) {
  DLTensor *tensor = (DLTensor *)call->free;
  if (exchange->dltensor_from_py_object_no_sync(argument, tensor)) return 0;
  int rank = tensor->ndim;
  if (rank < 0 || rank > (EXTENTS - call->extent_count) / 2) return 0;
  int64_t *shape = (int64_t *)(tensor + 1), *strides = shape + rank, compact = 1;
  call->extent_count += 2 * rank;
  call->free = (unsigned char *)(strides + rank);
  for (int i = rank - 1; i >= 0; --i) {
    shape[i] = tensor->shape[i];
    strides[i] = tensor->strides ? tensor->strides[i] : compact;
    compact *= shape[i];
  }
  tensor->shape = shape, tensor->strides = strides;
  if (!note_device(&call->environment, tensor->device, exchange)) return 0;
  out->type_index = kTVMFFIDLTensorPtr;
  out->v_ptr = tensor;
  return 1;
}

/* Whether an argument is a number or None. */
static int pack_plain(PyObject *argument, TVMFFIAny *out) {
  PyTypeObject *type = Py_TYPE(argument);
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
    out->v_int64 = argument == Py_True;
    return 1;
  }
  out->type_index = kTVMFFINone;
  return argument == Py_None;
}

static void clear_error(void) {
  TVMFFIObjectHandle error = NULL;
  TVMFFIErrorMoveFromRaised(&error);
  if (error) TVMFFIObjectDecRef(error);
}

/* Keep an object until the call is over; it is released at once where there is no room. */
static int hold(packed_call *call, TVMFFIObjectHandle handle) {
  if (call->object_count == OBJECTS) {
    TVMFFIObjectDecRef(handle);
    return 0;
  }
  call->objects[call->object_count++] = handle;
  return 1;
}

static int pack_number(PyObject *kernel, PyObject *argument, TVMFFIAny *out) {
  number_kind kind = number_kind_of(kernel, argument);
  int packed = 0, overflow = 0;
  if (kind == NO_NUMBER) return 0;
  PyObject *method = PyObject_GetAttrString(argument, kind == AN_INT ? "__tvm_ffi_int__" : "__tvm_ffi_float__");
  PyObject *value = method ? PyObject_CallFunctionObjArgs(method, NULL) : NULL;
  out->zero_padding = 0;
  out->v_int64 = 0;
  if (value && kind == AN_INT && PyLong_Check(value)) {
    out->type_index = kTVMFFIInt;
    out->v_int64 = PyLong_AsLongLongAndOverflow(value, &overflow);
    packed = !overflow;
  } else if (value && kind == A_FLOAT && Py_TYPE(value) == &PyFloat_Type) {
    out->type_index = kTVMFFIFloat;
    out->v_float64 = PyFloat_AsDouble(value);
    packed = 1;
  }
  Py_DecRef(method);
  Py_DecRef(value);
  return packed;
}

/* A tensor in a tuple: an object that owns it, since an array may outlive the call. */
static int pack_owned(packed_call *call, PyObject *argument, environment *where, TVMFFIAny *out) {
  const DLPackExchangeAPI *exchange = exchange_of(Py_TYPE(argument));
  DLManagedTensorVersioned *managed = NULL;
  TVMFFIObjectHandle handle = NULL;
  if (!exchange || !exchange->managed_tensor_from_py_object_no_sync) return 0;
  if (exchange->managed_tensor_from_py_object_no_sync(argument, &managed)) return 0;
  int noted = note_device(where, managed->dl_tensor.device, exchange);
  int status = TVMFFITensorFromDLPackVersioned(managed, 0, 0, &handle);
  if (status) {
    clear_error();
    if (managed->deleter) managed->deleter(managed);
    return 0;
  }
  out->type_index = kTVMFFITensor;
  out->v_obj = handle;
  return hold(call, handle) && noted;
}

/* A tuple becomes an array, as tvm_ffi makes it. A call without a tensor of its own runs in the environment of those of
 * its tuples. */
static int pack_tuple(packed_call *call, PyObject *tuple, environment *outer, int depth, TVMFFIAny *out) {
  static TVMFFIObjectHandle make_array;
  TVMFFIAny members[MEMBERS], made = {.type_index = kTVMFFINone};
  environment inner = NOWHERE;
  Py_ssize_t count = PyTuple_Size(tuple);
  if (count > MEMBERS || depth > DEPTH) return 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *member = PyTuple_GetItem(tuple, i);
    if (pack_plain(member, &members[i])) continue;
    int packed = is_tuple_type(Py_TYPE(member)) ? pack_tuple(call, member, &inner, depth + 1, &members[i])
                 : exchange_of(Py_TYPE(member)) ? pack_owned(call, member, &inner, &members[i])
                                                : pack_number(call->kernel, member, &members[i]);
    if (!packed) return 0;
  }
  int status = make_array ? 0 : TVMFFIFunctionGetGlobal(&(TVMFFIByteArray){"ffi.Array", 9}, &make_array);
  if (!status) status = make_array ? TVMFFIFunctionCall(make_array, members, (int32_t)count, &made) : 0;
  if (status) clear_error();
  if (made.type_index != kTVMFFIArray || !hold(call, made.v_obj)) return 0;
  if ((int)outer->device.device_type == NO_DEVICE) outer->device = inner.device, outer->stream = inner.stream;
  if (!outer->exchange) outer->exchange = inner.exchange;
  *out = made;
  return 1;
}

void start_call(packed_call *call, PyObject *kernel, Py_ssize_t count) {
  call->kernel = kernel;
  call->args = (TVMFFIAny *)call->room;
  call->free = (unsigned char *)(call->args + count);
  call->extent_count = call->object_count = 0;
  call->environment = NOWHERE;
}

int pack_argument(packed_call *call, PyObject *argument, TVMFFIAny *out) {
  if (pack_plain(argument, out)) return 1;
  PyTypeObject *type = Py_TYPE(argument);
  if (is_tuple_type(type)) return pack_tuple(call, argument, &call->environment, 1, out);
  const DLPackExchangeAPI *exchange = exchange_of(type);
  return exchange ? pack_tensor(call, argument, exchange, out) : pack_number(call->kernel, argument, out);
}

void end_call(packed_call *call) {
  while (call->object_count) TVMFFIObjectDecRef(call->objects[--call->object_count]);
}
