/* The call path: a Python type whose instances, when called, pack their arguments and run a kernel's TVM-FFI entry.
 *
 * What is plainly a tensor with a C exchange, an int, a float, a bool, None, an object that stands for a number, or a
 * tuple of such, named or not, is packed here (arguments.h). Any other argument, a keyword, or a conversion that fails
 * sends the whole call to the instance's method _slowly, which knows every kind and raises every error, so that nothing
 * is decided twice. Nothing of Python is held while the kernel's entry runs.
 *
 * It needs nothing of Python but its stable ABI (python_abi.h), so that one binary serves every version. */
#include <stddef.h>
#include <stdint.h>
#include <tvm/ffi/extra/c_env_api.h>

#include "arguments.h"
#include "python_abi.h"

static const size_t COUNT_MASK = SIZE_MAX >> 1; /* a vectorcall's count carries a flag in its highest bit */

typedef struct {
  object head;
  vectorcall call;
  TVMFFISafeCallType entry; /* null until Python has checked that the kernel may run here */
  void *program; /* what the entry gets for itself: a host program; null for an entry of an object */
} launcher;

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
    status = self->entry(self->program, call->args, count, result);
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
  call.kernel = object_self;
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

static object *bind(object *self, object *address) {
  void *program = PyLong_AsVoidPtr(address);
  if (!program && PyErr_Occurred()) return NULL;
  ((launcher *)self)->program = program;
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
      {"_arm", arm, METHOD_ONE_ARGUMENT, "Let calls go to the entry at this address from now on; 0: no more."},
      {"_bind", bind, METHOD_ONE_ARGUMENT, "Give the entry the host program at this address."},
      {0}};
  static member members[] = {
      {"__vectorcalloffset__", MEMBER_SIZE, offsetof(launcher, call), MEMBER_READ_ONLY, NULL}, {0}};
  static type_slot slots[] = {{TP_NEW, create},      {TP_CALL, PyVectorcall_Call},
                              {TP_METHODS, methods}, {TP_MEMBERS, members},
                              {TP_DOC, "Calls a kernel's entry."}, {0}};
  static type_spec spec = {"precast.loader.launch.fastcall.Launcher", sizeof(launcher), 0,
                           TYPE_DEFAULT | TYPE_MAY_BE_BASE | TYPE_HAS_VECTORCALL, slots};
  return PyType_FromSpec(&spec);
}
