/* A runtime library that records launches instead of making them, for rehearsals of a kernel's host code. It defines
 * only the functions of host code that launches and does nothing else: an object that needs more does not link against
 * it, and has no launch plan. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef void (*set_error_fn)(const char *kind, const char **parts, int32_t count);
typedef int (*init_fn)(void **library);
typedef int (*load_fn)(void **library, int32_t device);

/* As the CUDA runtime's public header lays them out. */
typedef struct {
  int32_t id;
  int32_t padding;
  union {
    int32_t number;
    uint32_t cluster[3];
    unsigned char bytes[64];
  } value;
} attribute;
typedef struct {
  uint32_t grid[3], block[3];
  size_t shared;
  void *stream;
  const attribute *attributes;
  uint32_t attribute_count;
} configuration;

enum { CLUSTER = 4, PARAMETERS = 64, BYTES = 256, NAME = 1024 };

typedef struct {
  uint32_t launches, grid[3], block[3], cluster[3];
  uint64_t shared, stream;
  int32_t unknown; /* the id of an attribute that is set and has no place here */
  char kernel[NAME];
  unsigned char parameters[PARAMETERS][BYTES];
} record;

#define EXPORT __attribute__((visibility("default")))

EXPORT record rehearsed;
EXPORT uint32_t parameter_sizes[PARAMETERS]; /* set by who reads the record: how much of each parameter to keep */

static int current_device;

EXPORT int _cudaLaunchKernelEx(const configuration *launch, const void *kernel, void **parameters) {
  record *r = &rehearsed;
  uint32_t none[3] = {1, 1, 1};
  r->launches++;
  memcpy(r->grid, launch->grid, sizeof r->grid);
  memcpy(r->block, launch->block, sizeof r->block);
  memcpy(r->cluster, none, sizeof r->cluster);
  r->shared = launch->shared;
  r->stream = (uint64_t)(uintptr_t)launch->stream;
  strncpy(r->kernel, kernel ? kernel : "", NAME - 1);
  for (uint32_t i = 0; i < launch->attribute_count; ++i) {
    const attribute *a = &launch->attributes[i];
    if (a->id == CLUSTER)
      memcpy(r->cluster, a->value.cluster, sizeof r->cluster);
    else if (a->value.number)
      r->unknown = a->id;
  }
  for (int i = 0; i < PARAMETERS && parameter_sizes[i]; ++i)
    memcpy(r->parameters[i], parameters[i], parameter_sizes[i] < BYTES ? parameter_sizes[i] : BYTES);
  return 0;
}

EXPORT int cuda_dialect_init_library_once(void **library, init_fn init, load_fn load, void *set_error) {
  (void)set_error;
  if (*library) return 0;
  int status = init(library);
  return status ? status : load(library, 0);
}

EXPORT int cuda_dialect_unload_library_once(void **library) { return *library = NULL, 0; }

/* A kernel's handle is its name, which the host code may keep on its stack. */
EXPORT int _cudaLibraryGetKernel(void **kernel, void *library, const char *name) {
  static char names[8][NAME];
  static int count;
  (void)library;
  if (count == 8) return 1;
  *kernel = strncpy(names[count++], name, NAME - 1);
  return 0;
}

EXPORT int _cudaLibraryLoadData(void **library, const void *code) { return *library = (void *)code, 0; }
EXPORT int _cudaGetDevice(int *device) { return *device = current_device, 0; }
EXPORT int _cudaSetDevice(int device) { return current_device = device, 0; }
EXPORT int _cudaDeviceGetAttribute(int *value) { return *value = 232448, 0; } /* asked for shared memory only */
EXPORT int _cuKernelGetAttribute(int *value) { return *value = 0, 0; }
EXPORT int _cudaKernelSetAttributeForDevice(void) { return 0; }

EXPORT void CuteDSLRT_TVMFFISetRaisedCudaError(set_error_fn set_error, int32_t code) {
  (void)code;
  const char *parts[] = {"a rehearsal failed"};
  set_error("CUDADialectError", parts, 1);
}
