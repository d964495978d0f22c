/* A TVM-FFI entry that does what its first argument says with the others: it describes, returns or refuses them. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <unistd.h>

static __thread char text[1 << 16];
static __thread int used;

static void put(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int left = (int)sizeof text - used;
  int wrote = vsnprintf(text + used, left, format, arguments);
  used += wrote < left ? wrote : left - 1;
  va_end(arguments);
}

static const DLTensor *tensor(const TVMFFIAny *value) {
  if (value->type_index == kTVMFFIDLTensorPtr) return value->v_ptr;
  if (value->type_index == kTVMFFITensor) return (const DLTensor *)((const char *)value->v_obj + sizeof(TVMFFIObject));
  return NULL;
}

static void describe_members(const TVMFFIAny *array);

static void describe(const TVMFFIAny *value) {
  const DLTensor *t = tensor(value);
  if (t) {
    put("tensor at %p+%llu on %d:%d of (%d, %d, %d)", t->data, (unsigned long long)t->byte_offset,
        t->device.device_type, t->device.device_id, t->dtype.code, t->dtype.bits, t->dtype.lanes);
    for (int i = 0; i < t->ndim; ++i) put(" %lld/%lld", (long long)t->shape[i], (long long)t->strides[i]);
    if (t->device.device_type != kDLCPU)
      put(" stream %p", TVMFFIEnvGetStream(t->device.device_type, t->device.device_id));
  } else if (value->type_index == kTVMFFINone) {
    put("none %llx", (unsigned long long)value->v_uint64);
  } else if (value->type_index == kTVMFFIFloat) {
    put("float %a", value->v_float64);
  } else if (value->type_index < kTVMFFIStaticObjectBegin) {
    put("kind %d padding %u value %llx", value->type_index, value->zero_padding, (unsigned long long)value->v_uint64);
  } else {
    put("object of kind %d", value->type_index);
  }
  put("; ");
  if (value->type_index == kTVMFFIArray) describe_members(value);
}

static TVMFFIAny ask(const char *function, TVMFFIAny *args, int count) {
  TVMFFIAny found = {.type_index = kTVMFFINone};
  TVMFFIObjectHandle handle = NULL;
  TVMFFIFunctionGetGlobal(&(TVMFFIByteArray){function, strlen(function)}, &handle);
  TVMFFIFunctionCall(handle, args, count, &found);
  TVMFFIObjectDecRef(handle);
  return found;
}

static void describe_members(const TVMFFIAny *array) {
  TVMFFIAny args[2] = {*array, {.type_index = kTVMFFIInt}};
  int64_t count = ask("ffi.ArraySize", args, 1).v_int64;
  put("array of %lld: ", (long long)count);
  for (int64_t i = 0; i < count; ++i) {
    args[1].v_int64 = i;
    TVMFFIAny member = ask("ffi.ArrayGetItem", args, 2);
    describe(&member);
    if (member.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(member.v_obj);
  }
}

static const char *const kinds[] = {
    "ValueError",  "TypeError",      "KeyError",         "IndexError",     "RuntimeError",
    "MemoryError", "AssertionError", "CUDADialectError", "AttributeError", ""};

int __tvm_ffi_echo(void *self, const TVMFFIAny *args, int32_t count, TVMFFIAny *result) {
  (void)self;
  used = 0;
  put("argument #1 of %d: ", count);
  int64_t wish = count && args[0].type_index == kTVMFFIInt ? args[0].v_int64 : -1;
  for (int i = wish < 0 ? 0 : 1; i < count; ++i) describe(&args[i]);
  if (wish == 1) {
    result->type_index = kTVMFFIInt, result->v_int64 = count;
  } else if (wish == 2) {
    result->type_index = kTVMFFIFloat, result->v_float64 = count / 4.0;
  } else if (wish == 3) {
    result->type_index = kTVMFFIBool, result->v_int64 = count % 2;
  } else if (wish == 4) {
    return TVMFFIStringFromByteArray(&(TVMFFIByteArray){text, used}, result);
  } else if (wish == 5 && count > 1 && tensor(&args[1])) {
    TVMFFIObjectHandle made;
    if (TVMFFIEnvTensorAlloc((DLTensor *)tensor(&args[1]), &made)) return -1;
    result->type_index = kTVMFFITensor, result->v_ptr = made;
  } else if (wish == 7) {
    usleep(300000);
  } else if (wish == 6) {
    return -1; /* an error that no one set */
  } else if (wish != 0) {
    TVMFFIErrorSetRaisedFromCStr(kinds[wish < 10 || wish > 19 ? 0 : wish - 10], text);
    return -1;
  }
  return 0;
}
