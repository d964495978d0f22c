/* What is plainly a tensor with a C exchange, an int, a float, a bool, None, an object that stands for a number, or a
 * tuple of such, named or not, is packed by arguments.c. Any other argument, a keyword, or a conversion that fails
 * sends the whole call to the instance's method _slowly, which takes every kind and raises every error, so that nothing
 * is decided twice. No Python object is held while the kernel's entry runs. */
#include "launcher.h"

#include <stddef.h>

#include "arguments.h"
#include "host_program.h"

static const size_t COUNT_MASK = SIZE_MAX >> 1; /* the highest bit of a vectorcall's count is a flag */

typedef struct {
  PyObject head;
  vectorcall_function call;
  TVMFFISafeCallType entry; /* NULL until Python has checked that the kernel may run here */
  void *program;            /* what the entry gets as self: a host program; NULL for the entry of an object */
  int allocates;            /* whether the entry may ask for memory */
} launcher;

static __thread TVMFFIAny passing; /* a result that is an object, until last_result returns it */

static PyObject *call_method(PyObject *self, const char *name, PyObject *const *args, Py_ssize_t count,
                             PyObject *names) {
  PyObject *result = NULL, *method = PyObject_GetAttrString(self, name), *tuple = PyTuple_New(count);
  PyObject *named = names ? PyDict_New() : NULL;
  int complete = method && tuple && (named || !names);
  for (Py_ssize_t i = 0; complete && i < count; ++i) {
    Py_IncRef(args[i]);
    complete = PyTuple_SetItem(tuple, i, args[i]) == 0;
  }
  for (Py_ssize_t i = 0, end = names ? PyTuple_Size(names) : 0; complete && i < end; ++i)
    complete = PyDict_SetItem(named, PyTuple_GetItem(names, i), args[count + i]) == 0;
  if (complete) result = PyObject_Call(method, tuple, named);
  Py_DecRef(method);
  Py_DecRef(tuple);
  Py_DecRef(named);
  return result;
}

/* Run a host program, which allocates nothing, and takes its stream from here. */
static int run_program(launcher *self, packed_call *call, int count, TVMFFIAny *result) {
  const environment *where = &call->environment;
  PyThreadState *thread = PyEval_SaveThread();
  int status = host_program_call_on(self->program, call->args, count, result, where->device.device_id, where->stream);
  PyEval_RestoreThread(thread);
  return status;
}

/* Run the entry in the environment of its tensors' owner, with the interpreter released. */
static int run(launcher *self, packed_call *call, int count, TVMFFIAny *result) {
  const environment *where = &call->environment;
  int on_device = (int)where->device.device_type != NO_DEVICE, status;
  if (self->program && where->device.device_type == kDLCUDA) return run_program(self, call, count, result);
  const DLPackExchangeAPI *owner = self->allocates ? where->exchange : NULL;
  DLPackManagedTensorAllocator allocate = owner ? owner->managed_tensor_allocator : NULL;
  DLPackManagedTensorAllocator old_allocate = NULL;
  TVMFFIStreamHandle old_stream = NULL;
  if (on_device) {
    status = TVMFFIEnvSetStream(where->device.device_type, where->device.device_id, where->stream, &old_stream);
    if (status) return status;
  }
  status = allocate ? TVMFFIEnvSetDLPackManagedTensorAllocator(allocate, 0, &old_allocate) : 0;
  if (!status) {
    PyThreadState *thread = PyEval_SaveThread();
    status = self->entry(self->program, call->args, count, result);
    PyEval_RestoreThread(thread);
    if (allocate && allocate != old_allocate) TVMFFIEnvSetDLPackManagedTensorAllocator(old_allocate, 0, NULL);
  }
  if (on_device && old_stream != where->stream)
    TVMFFIEnvSetStream(where->device.device_type, where->device.device_id, old_stream, NULL);
  return status;
}

int take_error(PyObject **kind, PyObject **message) {
  TVMFFIObjectHandle error = NULL;
  TVMFFIErrorMoveFromRaised(&error);
  if (PyErr_Occurred()) { /* the error came from Python code that the entry called */
    if (error) TVMFFIObjectDecRef(error);
    return 0;
  }
  if (!error) {
    PyErr_SetString(PyExc_RuntimeError, "the kernel's entry failed and left no error: report this to its author");
    return 0;
  }
  const TVMFFIErrorCell *cell = (const TVMFFIErrorCell *)((const char *)error + sizeof(TVMFFIObject));
  *kind = PyUnicode_DecodeUTF8(cell->kind.data, (Py_ssize_t)cell->kind.size, "replace");
  *message = PyUnicode_DecodeUTF8(cell->message.data, (Py_ssize_t)cell->message.size, "replace");
  TVMFFIObjectDecRef(error);
  if (*kind && *message) return 1;
  Py_DecRef(*kind);
  Py_DecRef(*message);
  return 0;
}

/* Raise the error of the entry: Python's own, else the exception that _failed makes of it. */
static PyObject *raise_error(PyObject *self) {
  PyObject *kind, *message;
  if (!take_error(&kind, &message)) return NULL;
  PyObject *method = PyObject_GetAttrString(self, "_failed");
  PyObject *error = method ? PyObject_CallFunctionObjArgs(method, kind, message, NULL) : NULL;
  if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
  Py_DecRef(kind);
  Py_DecRef(message);
  Py_DecRef(method);
  Py_DecRef(error);
  return NULL;
}

static PyObject *none(void) {
  Py_IncRef(Py_None);
  return Py_None;
}

static PyObject *convert_result(PyObject *self, PyObject *const *args, Py_ssize_t count, const TVMFFIAny *result) {
  switch (result->type_index) {
  case kTVMFFINone:
    return none();
  case kTVMFFIInt:
    return PyLong_FromLongLong(result->v_int64);
  case kTVMFFIFloat:
    return PyFloat_FromDouble(result->v_float64);
  case kTVMFFIBool:
    return PyBool_FromLong(result->v_int64 != 0);
  }
  passing = *result;
  PyObject *converted = call_method(self, "_converted", args, count, NULL);
  if (passing.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(passing.v_obj);
  passing.type_index = kTVMFFINone;
  return converted;
}

int last_result(void *self, const TVMFFIAny *args, int32_t count, TVMFFIAny *result) {
  (void)self, (void)args, (void)count;
  *result = passing;
  passing.type_index = kTVMFFINone;
  return 0;
}

static PyObject *launch(PyObject *object, PyObject *const *args, size_t flagged, PyObject *names) {
  launcher *self = (launcher *)object;
  Py_ssize_t count = (Py_ssize_t)(flagged & COUNT_MASK);
  if (!self->entry || names || count > ARGUMENTS) return call_method(object, "_slowly", args, count, names);
  packed_call call;
  start_call(&call, object, count);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!pack_argument(&call, args[i], &call.args[i])) {
      end_call(&call);
      PyErr_Clear();
      return call_method(object, "_slowly", args, count, NULL);
    }
  }
  TVMFFIAny result = {.type_index = kTVMFFINone};
  int status = run(self, &call, (int)count, &result);
  end_call(&call);
  return status ? raise_error(object) : convert_result(object, args, count, &result);
}

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *named) {
  (void)args, (void)named;
  PyObject *self = ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (self) ((launcher *)self)->call = launch;
  return self;
}

static PyObject *arm(PyObject *self, PyObject *args) {
  unsigned long long entry, program = 0;
  int allocates = 1;
  if (!PyArg_ParseTuple(args, "K|Kp", &entry, &program, &allocates)) return NULL;
  ((launcher *)self)->allocates = allocates;
  ((launcher *)self)->program = (void *)(uintptr_t)program;
  ((launcher *)self)->entry = (TVMFFISafeCallType)(uintptr_t)entry;
  return none();
}

PyObject *launcher_type(void) {
  static PyMethodDef methods[] = {
      {"_arm", arm, METH_VARARGS,
       "Let calls go to the entry at an address. It gets a host program as self, and may ask for memory."},
      {NULL, NULL, 0, NULL}};
  static PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(launcher, call), READONLY, NULL},
                                  {NULL, 0, 0, 0, NULL}};
  static PyType_Slot slots[] = {
      {Py_tp_new, create},      {Py_tp_call, PyVectorcall_Call},        {Py_tp_methods, methods},
      {Py_tp_members, members}, {Py_tp_doc, "Calls a kernel's entry."}, {0, NULL}};
  static PyType_Spec spec = {"precast.loader.native._callpath.Launcher", sizeof(launcher), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_VECTORCALL, slots};
  return PyType_FromSpec(&spec);
}
