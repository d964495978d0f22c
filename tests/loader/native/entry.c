/* A TVM-FFI entry that runs on the CPU, so that loading and calling are tested for real where there is no GPU. */
#include <tvm/ffi/c_api.h>

long long precast_test_scale(long long value);

static int refuse(const char* message) {
  TVMFFIErrorSetRaisedFromCStr("ValueError", message);
  return -1;
}

/* (n) -> n times the runtime's factor plus PRECAST_TEST_OFFSET; (tensor x, tensor y, double f): y[i] = f * x[i]. */
int PRECAST_TEST_ENTRY(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  (void)self;
  if (count == 1 && args[0].type_index == kTVMFFIInt) {
    result->type_index = kTVMFFIInt;
    result->v_int64 = precast_test_scale(args[0].v_int64) + PRECAST_TEST_OFFSET;
    return 0;
  }
  if (count != 3 || args[0].type_index != kTVMFFITensor || args[1].type_index != kTVMFFITensor ||
      args[2].type_index != kTVMFFIFloat) {
    return refuse("expected an int, or x, y and a factor");
  }
  DLTensor* x = (DLTensor*)((char*)args[0].v_obj + sizeof(TVMFFIObject));
  DLTensor* y = (DLTensor*)((char*)args[1].v_obj + sizeof(TVMFFIObject));
  if (x->device.device_type != kDLCPU || x->dtype.bits != 32 || x->ndim != 1 || y->shape[0] != x->shape[0]) {
    return refuse("expected two float32 vectors of one length on the CPU");
  }
  for (int64_t i = 0; i < x->shape[0]; ++i) {
    ((float*)y->data)[i] = (float)args[2].v_float64 * ((float*)x->data)[i];
  }
  return 0;
}
