#include "ffi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define LIBRARY "libtvm_ffi.so"

static bool function(struct ffi *ffi, void *library, const char *name, void *place) {
  void *found = dlsym(library, name);
  if (!found) snprintf(ffi->why, sizeof ffi->why, "it has no %s", name);
  *(void **)place = found;
  return found;
}

static bool start(struct ffi *ffi) {
  const char *named = getenv("PRECAST_TVM_FFI"), *path = ffi->path ? ffi->path : named && *named ? named : LIBRARY;
  __typeof__(&TVMFFIGetVersion) version;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror();
    snprintf(ffi->why, sizeof ffi->why, "%.390s", why ? why : "the dynamic linker gives no reason");
    return false;
  }
  if (!function(ffi, library, "TVMFFIGetVersion", &version) ||
      !function(ffi, library, "TVMFFIEnvSetStream", &ffi->set_stream) ||
      !function(ffi, library, "TVMFFIEnvGetStream", &ffi->stream) ||
      !function(ffi, library, "TVMFFIErrorSetRaisedFromCStr", &ffi->raise) ||
      !function(ffi, library, "TVMFFIErrorMoveFromRaised", &ffi->move_error) ||
      !function(ffi, library, "TVMFFIObjectDecRef", &ffi->release) ||
      !function(ffi, library, "TVMFFIFunctionGetGlobal", &ffi->find) ||
      !function(ffi, library, "TVMFFIFunctionCall", &ffi->call))
    return false;
  TVMFFIVersion found;
  version(&found);
  ffi->version = (struct version){(int)found.major, (int)found.minor};
  snprintf(ffi->name, sizeof ffi->name, "%u.%u.%u", found.major, found.minor, found.patch);
  return true;
}

void start_ffi(struct ffi *ffi) {
  if (ffi->asked) return;
  ffi->absent = start(ffi) ? NULL : ffi->why;
  ffi->asked = true;
}

const char *raised(struct call *call, const struct ffi *ffi) {
  TVMFFIObjectHandle error = NULL;
  ffi->move_error(&error);
  if (!error) return "the kernel's entry failed and left no error: report this to its author";
  const TVMFFIErrorCell *cell = (const TVMFFIErrorCell *)((const char *)error + sizeof(TVMFFIObject));
  struct builder builder = {.call = call};
  put_text(&builder, (struct text){cell->kind.data, cell->kind.size});
  put(&builder, ": ");
  put_text(&builder, (struct text){cell->message.data, cell->message.size});
  const char *text = built(&builder);
  ffi->release(error);
  return text;
}
