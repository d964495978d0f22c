/* The call path: a Python type whose instances, when called, pack their arguments and run a kernel's TVM-FFI entry.
 *
 * What is plainly a tensor with a C exchange, an int, a float, a bool, None or a tuple of such, named or not, is packed
 * here. Any other argument, a keyword, or a conversion that fails sends the whole call to the instance's method
 * _slowly, which knows every kind and raises every error, so that nothing is decided twice. Nothing of Python is held
 * while the kernel's entry runs.
 *
 * It needs nothing of Python but its stable ABI (python_abi.h), so that one binary serves every version. */
#include <stddef.h>
#include <stdint.h>
#include <tvm/ffi/extra/c_env_api.h>

#include "python_abi.h"

enum { ARGUMENTS = 64, EXTENTS = 512, KNOWN_TYPES = 8, KNOWN_TUPLES = 32, MEMBERS = 32, DEPTH = 4, HELD = 256 };
#define NOWHERE ((surroundings){.device = {(DLDeviceType)-1, 0}})
static const size_t COUNT_MASK = SIZE_MAX >> 1; /* a vectorcall's count carries a flag in its highest bit */

typedef struct {
  object head;
  vectorcall call;
  TVMFFISafeCallType entry; /* null until Python has checked that the kernel may run here */
} launcher;

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
  TVMFFIAny args[ARGUMENTS];
  DLTensor tensors[ARGUMENTS];
  int64_t extents[EXTENTS];
  TVMFFIObjectHandle held[HELD]; /* what tuples and the tensors in them became */
  int tensor_count, extent_count, held_count;
  surroundings around;
} frame;

/* Types whose exchange is known, and types of named tuples. Each is held for good, so that its address means no other
 * type. */
static struct {
  object *type;
  const DLPackExchangeAPI *exchange;
} known[KNOWN_TYPES];
static object *known_tuples[KNOWN_TUPLES];

/* A result that is an object, on its way to tvm_ffi, which alone can make a Python object of it. */
static __thread TVMFFIAny passing;

static object *hand_over(object *self, const char *name, object *const *args, intptr_t count, object *names) {
  object *result = NULL, *how = PyObject_GetAttrString(self, name), *tuple = PyTuple_New(count);
  object *named = names ? PyDict_New() : NULL;
  int sound = how && tuple && (named || !names);
  for (intptr_t i = 0; sound && i < count; ++i) {
    Py_IncRef(args[i]);
    sound = PyTuple_SetItem(tuple, i, args[i]) == 0;
  }
  for (intptr_t i = 0, end = names ? PyTuple_Size(names) : 0; sound && i < end; ++i)
    sound = PyDict_SetItem(named, PyTuple_GetItem(names, i), args[count + i]) == 0;
  if (sound) result = PyObject_Call(how, tuple, named);
  Py_DecRef(how), Py_DecRef(tuple), Py_DecRef(named);
  return result;
}

/* The exchange of a type that is seen for the first time, or null where tvm_ffi treats it in another way. */
static const DLPackExchangeAPI *learn(object *type) {
  static const char *const capsule_name = "dlpack_exchange_api";
  if (PyObject_HasAttrString(type, "__tvm_ffi_object__")) return NULL;
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
  for (size_t i = 0; plain && i < sizeof others / sizeof *others; ++i) plain = !PyObject_HasAttrString(type, others[i]);
  if (plain && free_slot < KNOWN_TUPLES) Py_IncRef(type), known_tuples[free_slot] = type;
  return plain;
}

/* Keep an object until the call is over; where there is no room, it is let go at once. */
static int hold(frame *call, TVMFFIObjectHandle handle) {
  if (call->held_count == HELD) return TVMFFIObjectDecRef(handle), 0;
  call->held[call->held_count++] = handle;
  return 1;
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
    if (is_tuple_type(member->type) ? !pack_tuple(call, member, &around, depth + 1, &members[i])
                                    : !pack_owned(call, member, &around, &members[i]))
      return 0;
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
  return exchange && pack_tensor(call, argument, exchange, out);
}

static void release(frame *call) {
  while (call->held_count) TVMFFIObjectDecRef(call->held[--call->held_count]);
}

/* Run the entry in the environment that its tensors' owner works in, with the interpreter let go. */
static int run(launcher *self, frame *call, int count, TVMFFIAny *result) {
  const surroundings *around = &call->around;
  int on_device = (int)around->device.device_type != -1, status;
  DLPackManagedTensorAllocator allocate = around->exchange ? around->exchange->managed_tensor_allocator : NULL;
  DLPackManagedTensorAllocator old_allocate = NULL;
  TVMFFIStreamHandle old_stream = NULL;
  if (on_device) {
    status = TVMFFIEnvSetStream(around->device.device_type, around->device.device_id, around->stream, &old_stream);
    if (status) return status;
  }
  status = allocate ? TVMFFIEnvSetDLPackManagedTensorAllocator(allocate, 0, &old_allocate) : 0;
  if (!status) {
    void *thread = PyEval_SaveThread();
    status = self->entry(NULL, call->args, count, result);
    PyEval_RestoreThread(thread);
    if (allocate && allocate != old_allocate) TVMFFIEnvSetDLPackManagedTensorAllocator(old_allocate, 0, NULL);
  }
  if (on_device && old_stream != around->stream)
    TVMFFIEnvSetStream(around->device.device_type, around->device.device_id, old_stream, NULL);
  return status;
}

/* Raise what the entry left: Python's own error where it came from Python, else what _failed makes of it. */
static object *raise_error(object *self) {
  TVMFFIObjectHandle error = NULL;
  TVMFFIErrorMoveFromRaised(&error);
  if (PyErr_Occurred()) {
    if (error) TVMFFIObjectDecRef(error);
    return NULL;
  }
  if (!error) {
    PyErr_SetString(PyExc_RuntimeError, "the kernel's entry failed and left no error: report this to its author");
    return NULL;
  }
  const TVMFFIErrorCell *cell = (const TVMFFIErrorCell *)((const char *)error + sizeof(TVMFFIObject));
  object *kind = PyUnicode_DecodeUTF8(cell->kind.data, cell->kind.size, "replace");
  object *message = PyUnicode_DecodeUTF8(cell->message.data, cell->message.size, "replace");
  object *how = PyObject_GetAttrString(self, "_failed");
  object *raised = kind && message && how ? PyObject_CallFunctionObjArgs(how, kind, message, NULL) : NULL;
  if (raised) PyErr_SetObject(raised->type, raised);
  Py_DecRef(kind), Py_DecRef(message), Py_DecRef(how), Py_DecRef(raised);
  TVMFFIObjectDecRef(error);
  return NULL;
}

static object *result_of(object *self, object *const *args, intptr_t count, TVMFFIAny *result) {
  switch (result->type_index) {
    case kTVMFFINone:
      Py_IncRef(&_Py_NoneStruct);
      return &_Py_NoneStruct;
    case kTVMFFIInt:
      return PyLong_FromLongLong(result->v_int64);
    case kTVMFFIFloat:
      return PyFloat_FromDouble(result->v_float64);
    case kTVMFFIBool:
      return PyBool_FromLong(result->v_int64 != 0);
  }
  passing = *result;
  object *converted = hand_over(self, "_converted", args, count, NULL);
  if (passing.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(passing.v_obj);
  passing.type_index = kTVMFFINone;
  return converted;
}

static object *launch(object *object_self, object *const *args, size_t flagged, object *names) {
  launcher *self = (launcher *)object_self;
  size_t count = flagged & COUNT_MASK;
  if (!self->entry || names || count > ARGUMENTS) return hand_over(object_self, "_slowly", args, count, names);
  frame call;
  call.tensor_count = call.extent_count = call.held_count = 0;
  call.around = NOWHERE;
  for (size_t i = 0; i < count; ++i) {
    if (!pack(&call, args[i], &call.args[i])) {
      release(&call);
      PyErr_Clear();
      return hand_over(object_self, "_slowly", args, count, NULL);
    }
  }
  TVMFFIAny result = {.type_index = kTVMFFINone};
  int status = run(self, &call, count, &result);
  release(&call);
  return status ? raise_error(object_self) : result_of(object_self, args, count, &result);
}

static object *create(object *type, object *args, object *named) {
  (void)args, (void)named;
  object *self = ((allocator)PyType_GetSlot(type, TP_ALLOC))(type, 0);
  if (self) ((launcher *)self)->call = launch;
  return self;
}

static object *arm(object *self, object *address) {
  void *entry = PyLong_AsVoidPtr(address);
  if (!entry && PyErr_Occurred()) return NULL;
  ((launcher *)self)->entry = (TVMFFISafeCallType)entry;
  Py_IncRef(&_Py_NoneStruct);
  return &_Py_NoneStruct;
}

#define EXPORT __attribute__((visibility("default")))

/* A TVM-FFI entry that returns what is passing, whatever its arguments. */
EXPORT int precast_pass(void *self, const TVMFFIAny *args, int32_t count, TVMFFIAny *result) {
  (void)self, (void)args, (void)count;
  *result = passing;
  passing.type_index = kTVMFFINone;
  return 0;
}

/* The type, as a new reference. Called with the interpreter held; its state is the main interpreter's alone. */
EXPORT object *precast_launcher(void) {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    PyErr_SetString(PyExc_ImportError, "kernels are launched from the main interpreter only: call them from there");
    return NULL;
  }
  static method methods[] = {
      {"_arm", arm, METHOD_ONE_ARGUMENT, "Let calls go to the entry at this address from now on; 0: no more."}, {0}};
  static member members[] = {
      {"__vectorcalloffset__", MEMBER_SIZE, offsetof(launcher, call), MEMBER_READ_ONLY, NULL}, {0}};
  static type_slot slots[] = {{TP_NEW, create},      {TP_CALL, PyVectorcall_Call},
                              {TP_METHODS, methods}, {TP_MEMBERS, members},
                              {TP_DOC, "Calls a kernel's entry."}, {0}};
  static type_spec spec = {"precast.loader.launch.fastcall.Launcher", sizeof(launcher), 0,
                           TYPE_DEFAULT | TYPE_MAY_BE_BASE | TYPE_HAS_VECTORCALL, slots};
  return PyType_FromSpec(&spec);
}
