/* Stands in for libcuda.so.1: as many devices, and as current, as the environment says. */
#include <stdlib.h>
#include <string.h>

static int counts[16];
static int number(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text && *text ? atoi(text) : otherwise;
}

int cuInit(unsigned flags) {
  (void)flags;
  return number("FAKE_INIT", 0);
}
int cuDriverGetVersion(int *version) {
  *version = 12090;
  return 0;
}
int cuDeviceGetCount(int *count) {
  *count = number("FAKE_DEVICES", 2);
  return 0;
}
int cuDeviceGet(int *device, int ordinal) {
  *device = 40 + ordinal;
  return 0;
}
int cuDeviceGetName(char *name, int length, int device) {
  strncpy(name, device == 40 ? "Fake Hopper" : "Fake Blackwell", length);
  return 0;
}
int cuDeviceTotalMem_v2(size_t *size, int device) {
  (void)device;
  *size = 141ull << 30;
  return 0;
}
static int sms(long device) { return number(device == 40 ? "FAKE_SMS" : "FAKE_OTHER_SMS", 0); }
int cuDeviceGetAttribute(int *value, int which, int device) {
  counts[8]++;
  if (which > 1000) return 1;
  *value = which == 75 ? (device == 40 || number("FAKE_TWINS", 0) ? 9 : 10) : 0;
  if (which == 16) *value = sms(device);
  if (which == 120) *value = number("FAKE_CLUSTERS", 1);
  return 0;
}
int cuCtxGetCurrent(void **context) {
  *context = (void *)(long)number("FAKE_CONTEXT", 0);
  return 0;
}
int cuCtxGetDevice(int *device) {
  *device = 40 + number("FAKE_CURRENT", 0);
  return 0;
}
int cuGetErrorString(int code, const char **text) {
  *text = code == 100 ? "no CUDA-capable device is detected" : "unknown error";
  return 0;
}

/* Streams and captures: each call is counted, and refused where the environment says so. */
int fake_count(int which) { return counts[which]; }
static int counted(int which, const char *name) {
  counts[which]++;
  return number(name, 0);
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
  *context = (void *)(long)device;
  return counted(0, "FAKE_RETAIN");
}
static long pushed;
int cuCtxPushCurrent_v2(void *context) {
  pushed = (long)context;
  return counted(1, "FAKE_PUSH");
}
int cuCtxPopCurrent_v2(void **context) {
  (void)context;
  return counted(2, "FAKE_POP");
}
int cuStreamCreate(void **stream, unsigned flags) {
  (void)flags;
  *stream = (void *)0x5150;
  return counted(3, "FAKE_STREAM");
}
int cuStreamBeginCapture_v2(void *stream, int mode) {
  (void)stream;
  (void)mode;
  return counted(4, "FAKE_CAPTURE");
}
int cuStreamEndCapture(void *stream, void **graph) {
  (void)stream;
  *graph = (void *)0x61;
  return counted(5, "FAKE_END");
}
int cuGraphDestroy(void *graph) {
  (void)graph;
  return counted(6, "FAKE_GRAPH");
}
int cuStreamDestroy_v2(void *stream) {
  (void)stream;
  return counted(7, "FAKE_DESTROY");
}

/* Clusters: as many as its SMs hold, of the device whose context is current. */
int cuModuleLoadData(void **module, const void *image) {
  (void)image;
  *module = (void *)0x30d;
  return counted(9, "FAKE_MODULE");
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  (void)module;
  (void)name;
  *function = (void *)0xf;
  return 0;
}
int cuFuncSetAttribute(void *function, int which, int value) {
  (void)function;
  (void)which;
  (void)value;
  return 0;
}
int cuModuleUnload(void *module) {
  (void)module;
  return counted(10, "FAKE_UNLOAD");
}
int cuOccupancyMaxActiveClusters(int *count, void *function, const unsigned *config) {
  (void)function;
  *count = sms(pushed) / (int)config[0];
  return counted(11, "FAKE_OCCUPANCY");
}
