/* A runtime library that records launches instead of making them, for rehearsals and for the emulation of a kernel. It
 * defines only the functions of host code that launches and does nothing else: an object that needs more does not link
 * against it, and has no host program. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void (*set_error_fn)(const char *kind, const char **parts, int32_t count);
typedef int (*init_fn)(void **library);
typedef int (*load_fn)(void **library, int32_t device);
typedef int (*entry_fn)(void *self, const void *arguments, int32_t count, void *result);

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

enum {
  COOPERATIVE = 2,
  CLUSTER = 4,
  OVERLAP = 6,
  PREFERRED_CLUSTER = 11,
  LAUNCHES = 8,
  KERNELS = 8,
  PARAMETERS = 64,
  BYTES = 4096,
  NAME = 1024,
  ATTRIBUTES = 64,
  STACK = 1 << 16
};

typedef struct {
  int32_t kernel;  /* which of the known kernels; -1: another one */
  int32_t unknown; /* the id of an attribute that is set and has no place here */
  uint32_t grid[3], block[3], cluster[3], preferred[3], overlap, cooperative;
  uint64_t shared, stream;
  unsigned char parameters[BYTES]; /* one after the other */
} launch_record;

#define EXPORT __attribute__((visibility("default")))

EXPORT struct {
  uint32_t count; /* of all launches, also of those for which there is no room */
  uint32_t padding;
  launch_record launches[LAUNCHES];
} rehearsed;

/* What the reader of the record says of the device code: its kernels, and how long each parameter is. */
EXPORT struct {
  char name[NAME];
  uint32_t count, sizes[PARAMETERS];
} kernels[KERNELS];

/* The attributes of the device that host code may query; 97 is the most shared memory of a block. */
EXPORT struct {
  int32_t id, value;
} attributes[ATTRIBUTES] = {{97, 232448}};
EXPORT int32_t unknown_attribute; /* one that it queried and that is not in the table */

static int current_device;

EXPORT int _cudaLaunchKernelEx(const configuration *launch, const void *kernel, void **parameters) {
  if (rehearsed.count++ >= LAUNCHES) return 0;
  launch_record *r = &rehearsed.launches[rehearsed.count - 1];
  memset(r, 0, sizeof *r);
  memcpy(r->grid, launch->grid, sizeof r->grid);
  memcpy(r->block, launch->block, sizeof r->block);
  r->cluster[0] = r->cluster[1] = r->cluster[2] = 1;
  r->shared = launch->shared;
  r->stream = (uintptr_t)launch->stream;
  r->kernel = -1;
  for (uint32_t i = 0; i < launch->attribute_count; ++i) {
    const attribute *a = &launch->attributes[i];
    if (a->id == CLUSTER)
      memcpy(r->cluster, a->value.cluster, sizeof r->cluster);
    else if (a->id == OVERLAP)
      r->overlap = a->value.number != 0;
    else if (a->id == COOPERATIVE)
      r->cooperative = a->value.number != 0;
    else if (a->id == PREFERRED_CLUSTER)
      memcpy(r->preferred, a->value.cluster, sizeof r->preferred);
    else if (a->value.number)
      r->unknown = a->id;
  }
  for (int k = 0; k < KERNELS; ++k) {
    if (!kernel || !kernels[k].name[0] || strcmp(kernels[k].name, kernel)) continue;
    r->kernel = k;
    unsigned char *out = r->parameters;
    for (uint32_t i = 0; i < kernels[k].count; out += kernels[k].sizes[i++])
      memcpy(out, parameters[i], kernels[k].sizes[i]);
  }
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
  static struct known {
    struct known *next;
    char name[];
  } *first;
  (void)library;
  for (struct known *one = first; one; one = one->next)
    if (!strcmp(one->name, name)) return *kernel = one->name, 0;
  struct known *one = malloc(sizeof *one + strlen(name) + 1);
  if (!one) return 1;
  one->next = first;
  first = one;
  return *kernel = strcpy(one->name, name), 0;
}

EXPORT int _cudaLibraryLoadData(void **library, const void *code) { return *library = (void *)code, 0; }
EXPORT int _cudaGetDevice(int *device) { return *device = current_device, 0; }
EXPORT int _cudaSetDevice(int device) { return current_device = device, 0; }
EXPORT int _cudaDeviceGetAttribute(int *value, int id, int device) {
  (void)device;
  for (int i = 0; i < ATTRIBUTES && attributes[i].id; ++i)
    if (attributes[i].id == id) return *value = attributes[i].value, 0;
  unknown_attribute = id;
  return 1;
}
EXPORT int _cuKernelGetAttribute(int *value) { return *value = 0, 0; }
EXPORT int _cudaKernelSetAttributeForDevice(void) { return 0; }
EXPORT int _cudaFuncSetAttribute(void) { return 0; } /* of kernels for sm_107 */

EXPORT void CuteDSLRT_TVMFFISetRaisedCudaError(set_error_fn set_error, int32_t code) {
  (void)code;
  const char *parts[] = {"a call without a GPU failed"};
  set_error("CUDADialectError", parts, 1);
}

static __attribute__((noinline)) void fill_stack(unsigned char with) {
  volatile unsigned char room[STACK];
  for (size_t i = 0; i < sizeof room; ++i) room[i] = with;
}

/* Call an entry on a stack that is full of one byte: what the host code leaves unset of a parameter then has it. */
EXPORT int rehearse(entry_fn entry, const void *arguments, int32_t count, void *result, int32_t with) {
  rehearsed.count = 0;
  unknown_attribute = 0;
  fill_stack((unsigned char)with);
  return entry(NULL, arguments, count, result);
}
