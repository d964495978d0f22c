/* The call path: a Python type whose instances, when called, pack their arguments and run a kernel's TVM-FFI entry.
 *
 * What is plainly a tensor with a C exchange, an int, a float, a bool, None or a tuple of such but tensors is packed
 * here. Any other argument, a keyword, or a conversion that fails sends the whole call to the instance's method
 * _slowly, which knows every kind and raises every error, so that nothing is decided twice. Nothing of Python is held
 * while the kernel's entry runs.
 *
 * Python's names are declared here, and all of them are in the stable ABI of CPython 3.10 and up: one binary serves
 * every version, and a build host needs no Python.h. */
#include <stddef.h>
#include <stdint.h>
#include <tvm/ffi/extra/c_env_api.h>

typedef struct object {
  intptr_t references;
  struct object *type;
} object;
typedef object *(*vectorcall)(object *self, object *const *args, size_t count, object *names);
typedef object *(*allocator)(object *type, intptr_t items);
typedef struct {
  int slot;
  void *value;
} type_slot;
typedef struct {
  const char *name;
  int size;
  int item_size;
  unsigned flags;
  type_slot *slots;
} type_spec;
typedef struct {
  const char *name;
  int type;
  intptr_t offset;
  int flags;
  const char *doc;
} member;
typedef struct {
  const char *name;
  object *(*function)(object *self, object *argument);
  int flags;
  const char *doc;
} method;

enum { TP_ALLOC = 47, TP_CALL = 50, TP_DOC = 56, TP_METHODS = 64, TP_NEW = 65, TP_MEMBERS = 72 };
enum { METHOD_ONE_ARGUMENT = 8, MEMBER_SIZE = 19, MEMBER_READ_ONLY = 1 };
enum { TYPE_MAY_BE_BASE = 1 << 10, TYPE_HAS_VECTORCALL = 1 << 11, TYPE_DEFAULT = 1 << 18 };

extern object _Py_NoneStruct, PyBool_Type, PyFloat_Type, PyLong_Type, PyTuple_Type, _Py_TrueStruct;
extern object *PyExc_ImportError, *PyExc_RuntimeError;
extern object *PyBool_FromLong(long), *PyFloat_FromDouble(double), *PyLong_FromLongLong(long long);
extern object *PyDict_New(void), *PyTuple_New(intptr_t), *PyTuple_GetItem(object *, intptr_t);
extern object *PyErr_Occurred(void), *PyObject_Call(object *, object *, object *);
extern object *PyObject_CallFunctionObjArgs(object *, ...), *PyObject_GetAttrString(object *, const char *);
extern object *PyType_FromSpec(type_spec *), *PyUnicode_DecodeUTF8(const char *, intptr_t, const char *);
extern object *PyVectorcall_Call(object *, object *, object *);
extern void PyErr_Clear(void), PyErr_SetObject(object *, object *), PyErr_SetString(object *, const char *);
extern void Py_IncRef(object *), Py_DecRef(object *), *PyEval_SaveThread(void), PyEval_RestoreThread(void *);
extern void *PyCapsule_GetPointer(object *, const char *), *PyLong_AsVoidPtr(object *), *PyType_GetSlot(object *, int);
extern void *PyInterpreterState_Get(void);
extern int64_t PyInterpreterState_GetID(void *);
extern long long PyLong_AsLongLongAndOverflow(object *, int *);
extern double PyFloat_AsDouble(object *);
extern int PyCapsule_IsValid(object *, const char *), PyDict_SetItem(object *, object *, object *);
extern int PyObject_HasAttrString(object *, const char *), PyTuple_SetItem(object *, intptr_t, object *);
extern intptr_t PyTuple_Size(object *);

enum { ARGUMENTS = 64, EXTENTS = 512, KNOWN_TYPES = 8, MEMBERS = 32 };
static const size_t COUNT_MASK = SIZE_MAX >> 1; /* a vectorcall's count carries a flag in its highest bit */

typedef struct {
  object head;
  vectorcall call;
  TVMFFISafeCallType entry; /* null until Python has checked that the kernel may run here */
} launcher;

/* One call: what its arguments became. Shapes and strides are copied, since another thread may resize a tensor once
 * the interpreter is let go. */
typedef struct {
  TVMFFIAny args[ARGUMENTS];
  DLTensor tensors[ARGUMENTS];
  int64_t extents[EXTENTS];
  TVMFFIObjectHandle arrays[ARGUMENTS]; /* what tuples became */
  int tensor_count, extent_count, array_count;
  DLDevice device; /* of the first tensor that is not on the CPU; its type is -1 while there is none */
  void *stream;
  const DLPackExchangeAPI *exchange;
} frame;

/* Types whose exchange is known. Each is held for good, so that its address means no other type. */
static struct {
  object *type;
  const DLPackExchangeAPI *exchange;
} known[KNOWN_TYPES];

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
  if (tensor->device.device_type != kDLCPU && (int)call->device.device_type == -1) {
    if (exchange->current_work_stream(tensor->device.device_type, tensor->device.device_id, &call->stream)) return 0;
    call->device = tensor->device;
  }
  call->exchange = exchange;
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

/* A tuple of numbers and None becomes an array, as tvm_ffi makes it; one that holds a tensor is tvm_ffi's matter. */
static int pack_tuple(frame *call, object *tuple, TVMFFIAny *out) {
  static TVMFFIObjectHandle make_array;
  TVMFFIAny members[MEMBERS], made = {.type_index = kTVMFFINone};
  intptr_t count = PyTuple_Size(tuple);
  if (count > MEMBERS) return 0;
  for (intptr_t i = 0; i < count; ++i)
    if (!pack_plain(PyTuple_GetItem(tuple, i), &members[i])) return 0;
  int status = make_array ? 0 : TVMFFIFunctionGetGlobal(&(TVMFFIByteArray){"ffi.Array", 9}, &make_array);
  if (!status) status = make_array ? TVMFFIFunctionCall(make_array, members, (int32_t)count, &made) : 0;
  if (status) forget_raised();
  if (made.type_index != kTVMFFIArray) return 0;
  call->arrays[call->array_count++] = made.v_obj;
  *out = made;
  return 1;
}

/* Whether an argument is of a kind that is packed here; where it is not, there may be a Python error to forget. */
static int pack(frame *call, object *argument, TVMFFIAny *out) {
  if (pack_plain(argument, out)) return 1;
  if (argument->type == &PyTuple_Type) return pack_tuple(call, argument, out);
  const DLPackExchangeAPI *exchange = exchange_of(argument->type);
  return exchange && pack_tensor(call, argument, exchange, out);
}

static void release(frame *call) {
  while (call->array_count) TVMFFIObjectDecRef(call->arrays[--call->array_count]);
}

/* Run the entry in the environment that its tensors' owner works in, with the interpreter let go. */
static int run(launcher *self, frame *call, int count, TVMFFIAny *result) {
  int on_device = (int)call->device.device_type != -1, status;
  DLPackManagedTensorAllocator allocate = call->exchange ? call->exchange->managed_tensor_allocator : NULL;
  DLPackManagedTensorAllocator old_allocate = NULL;
  TVMFFIStreamHandle old_stream = NULL;
  if (on_device) {
    status = TVMFFIEnvSetStream(call->device.device_type, call->device.device_id, call->stream, &old_stream);
    if (status) return status;
  }
  status = allocate ? TVMFFIEnvSetDLPackManagedTensorAllocator(allocate, 0, &old_allocate) : 0;
  if (!status) {
    void *thread = PyEval_SaveThread();
    status = self->entry(NULL, call->args, count, result);
    PyEval_RestoreThread(thread);
    if (allocate && allocate != old_allocate) TVMFFIEnvSetDLPackManagedTensorAllocator(old_allocate, 0, NULL);
  }
  if (on_device && old_stream != call->stream)
    TVMFFIEnvSetStream(call->device.device_type, call->device.device_id, old_stream, NULL);
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
  call.tensor_count = call.extent_count = call.array_count = 0;
  call.device.device_type = (DLDeviceType)-1;
  call.exchange = NULL;
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
