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
int cuDeviceGetAttribute(int* value, int which, int device) {
  *value = which == 75 ? (device == 40 ? 9 : 10) : 0;
  return 0;
}
int cuCtxGetCurrent(void** context) { *context = (void*)(long)number("FAKE_CONTEXT", 0); return 0; }
int cuCtxGetDevice(int* device) { *device = 40 + number("FAKE_CURRENT", 0); return 0; }
int cuGetErrorString(int code, const char** text) {
  *text = code == 100 ? "no CUDA-capable device is detected" : "unknown error";
  return 0;
}
