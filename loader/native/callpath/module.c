/* The module precast.loader.native._callpath: the type Launcher, and the host programs of cubins. */
#include "host_program.h"
#include "launcher.h"

static PyObject *open_program(PyObject *module, PyObject *args) {
  const char *code, *cubin;
  Py_ssize_t code_size, cubin_size;
  PyObject *driver;
  char error[256];
  (void)module;
  if (!PyArg_ParseTuple(args, "y#y#O!", &code, &code_size, &cubin, &cubin_size, &PyTuple_Type, &driver)) return NULL;
  struct host_program_callees callees = {.raise = TVMFFIErrorSetRaisedFromCStr, .stream = TVMFFIEnvGetStream};
  if (PyTuple_Size(driver) > HOST_PROGRAM_DRIVER_COUNT) return PyErr_Format(PyExc_ValueError, "too many functions");
  for (Py_ssize_t i = 0; i < PyTuple_Size(driver); ++i)
    callees.driver[i] = PyLong_AsVoidPtr(PyTuple_GetItem(driver, i));
  if (PyErr_Occurred()) return NULL;
  struct host_program *program =
      host_program_open(code, (size_t)code_size, cubin, (size_t)cubin_size, &callees, error, sizeof error);
  return program ? PyLong_FromVoidPtr(program) : PyErr_Format(PyExc_ValueError, "%s", error);
}

static PyObject *ready_program(PyObject *module, PyObject *args) {
  unsigned long long program;
  int device, status;
  (void)module;
  if (!PyArg_ParseTuple(args, "Ki", &program, &device)) return NULL;
  Py_BEGIN_ALLOW_THREADS;
  status = host_program_ready((struct host_program *)(uintptr_t)program, device);
  Py_END_ALLOW_THREADS;
  PyObject *kind, *message;
  if (status && take_error(&kind, &message)) {
    PyErr_Format(PyExc_RuntimeError, "%U: %U", kind, message);
    Py_DecRef(kind);
    Py_DecRef(message);
  }
  return status ? NULL : Py_BuildValue("");
}

/* Add an object, whose reference is taken. */
static int add(PyObject *module, const char *name, PyObject *value) {
  int status = value ? PyModule_AddObjectRef(module, name, value) : -1;
  Py_DecRef(value);
  return status;
}

static PyObject *driver_names(void) {
  PyObject *names = PyTuple_New(HOST_PROGRAM_DRIVER_COUNT);
  for (int i = 0; names && i < HOST_PROGRAM_DRIVER_COUNT; ++i)
    PyTuple_SetItem(names, i, PyUnicode_FromString(HOST_PROGRAM_DRIVER_NAMES[i]));
  return names;
}

/* The state of this module is the main interpreter's alone. */
static int fill(PyObject *module) {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    PyErr_SetString(PyExc_RuntimeError, "kernels are launched from the main interpreter only: call them from there");
    return -1;
  }
  int failed = add(module, "Launcher", launcher_type()) || add(module, "DRIVER_FUNCTIONS", driver_names()) ||
               add(module, "PROGRAM_ENTRY", PyLong_FromVoidPtr((void *)(uintptr_t)host_program_call)) ||
               add(module, "RESULT_ENTRY", PyLong_FromVoidPtr((void *)(uintptr_t)last_result));
  return failed ? -1 : 0;
}

PyMODINIT_FUNC PyInit__callpath(void) {
  static PyMethodDef functions[] = {
      {"open_program", open_program, METH_VARARGS, "Open a host program: its address."},
      {"ready_program", ready_program, METH_VARARGS, "Do now what the first launch on a device would do."},
      {NULL, NULL, 0, NULL}};
  static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};
  static PyModuleDef module = {.m_base = PyModuleDef_HEAD_INIT,
                               .m_name = "_callpath",
                               .m_doc = "Calls kernels without the Python package tvm_ffi.",
                               .m_methods = functions,
                               .m_slots = slots};
  return PyModuleDef_Init(&module);
}
