/* Stands in for libtvm_ffi.so of 0.1.15, for processors that its package is not here for: errors, and the stream. */
#include <stdlib.h>
#include <string.h>
#include <tvm/ffi/extra/c_env_api.h>

static __thread struct {
  TVMFFIObject object;
  TVMFFIErrorCell cell;
} error;
static __thread char kind[64], message[4096];
static __thread void *streams[64];

void TVMFFIGetVersion(TVMFFIVersion *version) { version->major = 0, version->minor = 1, version->patch = 15; }
void TVMFFIErrorSetRaisedFromCStr(const char *what, const char *text) {
  strncpy(kind, what, sizeof kind - 1), strncpy(message, text, sizeof message - 1);
  error.cell.kind = (TVMFFIByteArray){kind, strlen(kind)},
  error.cell.message = (TVMFFIByteArray){message, strlen(message)};
}
void TVMFFIErrorMoveFromRaised(TVMFFIObjectHandle *result) { *result = *kind ? &error : NULL; }
int TVMFFIObjectDecRef(TVMFFIObjectHandle object) { return object == &error ? *kind = 0, 0 : 1; }
int TVMFFIEnvSetStream(int32_t type, int32_t device, TVMFFIStreamHandle stream, TVMFFIStreamHandle *before) {
  if (before) *before = streams[device & 63];
  return streams[device & 63] = stream, type != kDLCUDA;
}
TVMFFIStreamHandle TVMFFIEnvGetStream(int32_t type, int32_t device) {
  return type == kDLCUDA ? streams[device & 63] : NULL;
}
int TVMFFIFunctionGetGlobal(const TVMFFIByteArray *name, TVMFFIObjectHandle *out) { return (void)name, (void)out, 1; }
int TVMFFIFunctionCall(TVMFFIObjectHandle function, TVMFFIAny *values, int32_t count, TVMFFIAny *result) {
  return (void)function, (void)values, (void)count, (void)result, 1;
}
