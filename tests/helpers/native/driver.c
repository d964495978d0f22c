/* Stands in for libcuda.so.1: as many devices, and as current, as the environment says. */
#include <stdlib.h>
#include <string.h>

static int number(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text && *text ? atoi(text) : otherwise;
}

int cuInit(unsigned flags) { (void)flags; return number("FAKE_INIT", 0); }
int cuDriverGetVersion(int* version) { *version = 12090; return 0; }
int cuDeviceGetCount(int* count) { *count = number("FAKE_DEVICES", 2); return 0; }
int cuDeviceGet(int* device, int ordinal) { *device = 40 + ordinal; return 0; }
int cuDeviceGetName(char* name, int length, int device) {
  strncpy(name, device == 40 ? "Fake Hopper" : "Fake Blackwell", length);
  return 0;
}
int cuDeviceTotalMem_v2(size_t* size, int device) { (void)device; *size = 141ull << 30; return 0; }
int cuDeviceGetAttribute(int* value, int which, int device) {
  if (which > 1000) return 1;
  *value = which == 75 ? (device == 40 ? 9 : 10) : 0;
  return 0;
}
int cuCtxGetCurrent(void** context) { *context = (void*)(long)number("FAKE_CONTEXT", 0); return 0; }
int cuCtxGetDevice(int* device) { *device = 40 + number("FAKE_CURRENT", 0); return 0; }
int cuGetErrorString(int code, const char** text) {
  *text = code == 100 ? "no CUDA-capable device is detected" : "unknown error";
  return 0;
}

/* Streams and captures: each call is counted, and refused where the environment says so. */
static int counts[8];
int fake_count(int which) { return counts[which]; }
static int counted(int which, const char* name) { counts[which]++; return number(name, 0); }
int cuDevicePrimaryCtxRetain(void** context, int device) { *context = (void*)(long)device; return counted(0, "FAKE_RETAIN"); }
int cuCtxPushCurrent_v2(void* context) { (void)context; return counted(1, "FAKE_PUSH"); }
int cuCtxPopCurrent_v2(void** context) { (void)context; return counted(2, "FAKE_POP"); }
int cuStreamCreate(void** stream, unsigned flags) { (void)flags; *stream = (void*)0x5150; return counted(3, "FAKE_STREAM"); }
int cuStreamBeginCapture_v2(void* stream, int mode) { (void)stream; (void)mode; return counted(4, "FAKE_CAPTURE"); }
int cuStreamEndCapture(void* stream, void** graph) { (void)stream; *graph = (void*)0x61; return counted(5, "FAKE_END"); }
int cuGraphDestroy(void* graph) { (void)graph; return counted(6, "FAKE_GRAPH"); }
int cuStreamDestroy_v2(void* stream) { (void)stream; return counted(7, "FAKE_DESTROY"); }
