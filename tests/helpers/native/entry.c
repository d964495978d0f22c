/* A TVM-FFI entry that runs on the CPU, so that loading and calling are tested for real where there is no GPU. */
#include <tvm/ffi/c_api.h>

long long precast_test_scale(long long value);

static DLTensor *tensor(const TVMFFIAny *value) {
  if (value->type_index == kTVMFFIDLTensorPtr) return value->v_ptr;
  if (value->type_index == kTVMFFITensor) return (DLTensor *)((char *)value->v_obj + sizeof(TVMFFIObject));
  return NULL;
}

static int refuse(const char *message) {
  TVMFFIErrorSetRaisedFromCStr("ValueError", message);
  return -1;
}

/* (n) -> n times the runtime's factor plus PRECAST_TEST_OFFSET; (tensor x, tensor y, double f): y[i] = f * x[i]. */
int PRECAST_TEST_ENTRY(void *self, const TVMFFIAny *args, int32_t count, TVMFFIAny *result) {
  (void)self;
  if (count == 1 && args[0].type_index == kTVMFFIInt) {
    result->type_index = kTVMFFIInt;
    result->v_int64 = precast_test_scale(args[0].v_int64) + PRECAST_TEST_OFFSET;
    return 0;
  }
  if (count != 3 || !tensor(&args[0]) || !tensor(&args[1]) || args[2].type_index != kTVMFFIFloat) {
    return refuse("expected an int, or x, y and a factor");
  }
  DLTensor *x = tensor(&args[0]), *y = tensor(&args[1]);
  if (x->device.device_type != kDLCPU || x->dtype.bits != 32 || x->ndim != 1 || y->shape[0] != x->shape[0]) {
    return refuse("expected two float32 vectors of one length on the CPU");
  }
  for (int64_t i = 0; i < x->shape[0]; ++i) {
    ((float *)y->data)[i] = (float)args[2].v_float64 * ((float *)x->data)[i];
  }
  return 0;
}
