/* Kernels: an entry that is ready to be called with tensors, on a stream. */
#include "kernel.h"

#include <dlpack/dlpack.h>
#include <string.h>

#define PASSED 256
#define CUDA   kDLCUDA

struct launch {
  struct precast_kernel *kernel;
  const precast_value *arguments;
  size_t count;
  void *stream;
  TVMFFIAny packed[PASSED];
  TVMFFIObjectHandle arrays[PASSED]; /* of tuples, which are released in the end */
  size_t array_count;
  int device;
};

/* What the first call checks: whether the device runs the kernel. */
static void check_device(struct call *call, struct precast_kernel *kernel, int device) {
  struct machine machine = machine_of(call, &kernel->table->driver, &kernel->table->ffi, NULL, device);
  const struct artifact *artifact = kernel->artifact;
  const char *target = kernel->target;
  if (!machine.has_capability)
    fail(
        call, PRECAST_NO_CUDA_DEVICE,
        "%s for %s is loaded, but there is no CUDA device to launch it on: %s. Run this on a machine with an NVIDIA GPU and"
        " driver",
        kernel->op, target, machine.absent);
  if (!runs_on(artifact->target, machine.capability))
    fail(
        call, PRECAST_WRONG_DEVICE,
        "%s is built for %s, and device %d is %d.%d: ask precast_get without a target for the variant of this device, or use"
        " one that it runs on",
        kernel->op, target, machine.device, machine.capability.major, machine.capability.minor);
  const char *wrong = unmet(call, artifact, &machine);
  if (wrong)
    fail(call, PRECAST_WRONG_DEVICE, "%s is %s; or ask precast_get without a target, where it is built already",
         kernel->op, wrong);
  kernel->device = machine.device;
}

static void check_locked(struct call *call, void *argument) {
  struct launch *launch = argument;
  if (!kernel_is_ready(launch->kernel)) check_device(call, launch->kernel, launch->kernel->device);
  kernel_set_ready(launch->kernel);
}

static const char *list_of_names(struct call *call, const struct precast_kernel *kernel) {
  struct builder builder = {.call = call};
  for (size_t i = 0; i < kernel->name_count; ++i) put(&builder, i ? ", %s" : "%s", kernel->names[i]);
  return builder.size ? built(&builder) : "none";
}

static const char *name_of(const struct launch *launch, size_t place) {
  return place < launch->kernel->name_count ? launch->kernel->names[place] : "?";
}

static void check_tensor(struct call *call, struct launch *launch, const DLTensor *tensor, size_t place) {
  const char *name = name_of(launch, place), *why = NULL;
  if (!tensor) {
    why = "it is NULL: give a DLTensor";
  } else if (tensor->ndim < 0 || (tensor->ndim > 0 && !tensor->shape)) {
    why = "it has no shape: give one";
  } else if (tensor->ndim > 0 && !tensor->strides) {
    why = "it has no strides: give them, in elements";
  }
  if (why) fail(call, PRECAST_WRONG_REQUEST, "%s, argument %zu (%s): %s", launch->kernel->op, place, name, why);
  if (tensor->device.device_type == CUDA && launch->device < 0) launch->device = tensor->device.device_id;
}

static TVMFFIAny pack(struct call *call, struct launch *launch, const precast_value *value, size_t place, int depth);

/* The array that TVM-FFI makes of a tuple. */
static TVMFFIAny pack_tuple(struct call *call, struct launch *launch, const precast_value *value, size_t place,
                            int depth) {
  const struct ffi *ffi = &launch->kernel->table->ffi;
  TVMFFIByteArray name = {"ffi.Array", 9};
  TVMFFIObjectHandle make = NULL;
  TVMFFIAny array = {.type_index = kTVMFFINone};
  if (depth > 4 || value->count < 0 || value->count > PASSED || (value->count && !value->as.members) ||
      launch->array_count == PASSED)
    fail(call, PRECAST_WRONG_REQUEST,
         "%s, argument %zu (%s): a tuple of this size is not taken: give 256 members at most", launch->kernel->op,
         place, name_of(launch, place));
  TVMFFIAny *members = take(call, (size_t)value->count + 1, sizeof *members);
  for (int i = 0; i < value->count; ++i) members[i] = pack(call, launch, &value->as.members[i], place, depth + 1);
  if (ffi->find(&name, &make)) fail(call, PRECAST_LOAD_ERROR, "%s", raised(call, ffi));
  int status = ffi->call(make, members, value->count, &array);
  ffi->release(make);
  if (status) fail(call, PRECAST_LAUNCH_ERROR, "%s", raised(call, ffi));
  launch->arrays[launch->array_count++] = array.v_obj;
  return array;
}

static TVMFFIAny pack(struct call *call, struct launch *launch, const precast_value *value, size_t place, int depth) {
  switch (value->kind) {
  case PRECAST_NONE:
    return (TVMFFIAny){.type_index = kTVMFFINone};
  case PRECAST_INT:
    return (TVMFFIAny){.type_index = kTVMFFIInt, .v_int64 = value->as.integer};
  case PRECAST_BOOL:
    return (TVMFFIAny){.type_index = kTVMFFIBool, .v_int64 = value->as.integer != 0};
  case PRECAST_FLOAT:
    return (TVMFFIAny){.type_index = kTVMFFIFloat, .v_float64 = value->as.real};
  case PRECAST_POINTER:
    return (TVMFFIAny){.type_index = kTVMFFIOpaquePtr, .v_ptr = value->as.pointer};
  case PRECAST_TENSOR:
    check_tensor(call, launch, value->as.tensor, place);
    return (TVMFFIAny){.type_index = kTVMFFIDLTensorPtr, .v_ptr = (void *)(uintptr_t)value->as.tensor};
  case PRECAST_TUPLE:
    return pack_tuple(call, launch, value, place, depth);
  default:
    fail(call, PRECAST_WRONG_REQUEST, "%s, argument %zu (%s): %d is not a precast_kind: use one of precast.h",
         launch->kernel->op, place, name_of(launch, place), value->kind);
  }
}

/* A kernel's error with the author's name behind each argument's number. */
static const char *naming(struct call *call, const struct launch *launch, const char *text) {
  static const char mark[] = "argument #";
  struct builder builder = {.call = call};
  for (const char *at = text; *at;) {
    const char *place = strstr(at, mark), *end = place ? place + sizeof mark - 1 : at + strlen(at);
    size_t number = 0, digits = 0;
    for (; place && digits < 3 && *end >= '0' && *end <= '9'; ++end, ++digits)
      number = number * 10 + (size_t)(*end - '0');
    put_text(&builder, (struct text){at, (size_t)(end - at)});
    if (digits && number < launch->kernel->name_count && strncmp(end, " (", 2))
      put(&builder, " (%s)", launch->kernel->names[number]);
    at = end;
  }
  return built(&builder);
}

static void pack_all(struct call *call, void *argument) {
  struct launch *launch = argument;
  const struct precast_kernel *kernel = launch->kernel;
  if (launch->count != kernel->name_count)
    fail(call, PRECAST_WRONG_REQUEST, "%s takes %zu arguments (%s), not %zu: give each once, in this order", kernel->op,
         kernel->name_count, list_of_names(call, kernel), launch->count);
  if (launch->count && !launch->arguments)
    fail(call, PRECAST_WRONG_REQUEST, "%s: the arguments are NULL: give %zu", kernel->op, launch->count);
  for (size_t i = 0; i < launch->count; ++i) launch->packed[i] = pack(call, launch, &launch->arguments[i], i, 0);
}

/* Call the entry with the stream in TVM-FFI's environment, where the kernel looks for it. */
static void run(struct call *call, void *argument) {
  struct launch *launch = argument;
  pack_all(call, argument);
  const struct ffi *ffi = &launch->kernel->table->ffi;
  int device = launch->device >= 0 ? launch->device : launch->kernel->device;
  TVMFFIStreamHandle before = NULL;
  TVMFFIAny result = {.type_index = kTVMFFINone};
  if (ffi->set_stream(CUDA, device, launch->stream, &before)) fail(call, PRECAST_LAUNCH_ERROR, "%s", raised(call, ffi));
  int status = launch->kernel->entry(launch->kernel->self, launch->packed, (int32_t)launch->count, &result);
  if (before != launch->stream) ffi->set_stream(CUDA, device, before, NULL);
  if (status) fail(call, PRECAST_LAUNCH_ERROR, "%s: %s", launch->kernel->op, naming(call, launch, raised(call, ffi)));
  if (result.type_index >= kTVMFFIStaticObjectBegin) ffi->release(result.v_obj);
}

void launch_kernel(struct call *call, struct precast_kernel *kernel, const precast_value *arguments, size_t count,
                   void *stream) {
  struct launch launch; /* 6 KB: only what is used is set */
  launch.kernel = kernel, launch.arguments = arguments, launch.count = count, launch.stream = stream;
  launch.array_count = 0, launch.device = -1;
  if (!kernel_is_ready(kernel)) {
    pthread_mutex_lock(&kernel->table->lock);
    bool checked = attempt(call, check_locked, &launch);
    pthread_mutex_unlock(&kernel->table->lock);
    if (!checked) fail_again(call);
  }
  bool done = attempt(call, run, &launch);
  for (size_t i = 0; i < launch.array_count; ++i) kernel->table->ffi.release(launch.arrays[i]);
  if (!done) fail_again(call);
}
