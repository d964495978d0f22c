/* libprecast: kernels out of a precast cache, for programs without Python.
 *
 * A cache is a folder that `precast build` wrote. This library reads it, chooses the variant that serves a request on
 * this machine, opens it, and launches it on a stream. It decides as precast's Python loader does, and refuses what
 * that refuses. It needs libc alone; it opens libtvm_ffi.so (of the apache-tvm-ffi package), libcuda.so.1 and, for
 * compressed blobs, libzstd.so.1 while it runs.
 *
 * Each function that can fail returns a status, and puts a text into *error that ends with what to do. Give NULL for
 * error where the text is of no use; else free it with precast_free. On success *error is set to NULL.
 *
 * Threads: every function may be called from any thread at any time, but for the release of an object that another
 * thread still uses. A launch takes no lock. After a fork, only a child that calls exec may go on.
 *
 * One process may hold caches that several versions of the compiler made. Opened libraries and device code stay open
 * until the process ends, since a stream may still run them. */
#ifndef PRECAST_H
#define PRECAST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PRECAST_API __attribute__((visibility("default")))
#define PRECAST_ABI 1

/* The version of this interface that the library has. Compare it with PRECAST_ABI, which the program was built with:
 * libraries of one version serve every program that was built with this or a lower one. */
PRECAST_API int32_t precast_abi(void);

typedef enum {
  PRECAST_OK = 0,
  PRECAST_WRONG_REQUEST = 1,     /* a config, a target or an argument is not what is taken here */
  PRECAST_CACHE_ERROR = 2,       /* a cache is missing, incomplete, or of a format that is not read here */
  PRECAST_INTEGRITY_ERROR = 3,   /* bytes in a cache are not the bytes that its index promises */
  PRECAST_OP_NOT_FOUND = 4,      /* no cache holds the op */
  PRECAST_VARIANT_NOT_FOUND = 5, /* the op exists, and no variant fits; the text says why each one does not */
  PRECAST_LOAD_ERROR = 6,        /* the bytes are right, and yet they cannot be opened here */
  PRECAST_NO_CUDA_DEVICE = 7,    /* there is no usable CUDA device */
  PRECAST_WRONG_DEVICE = 8,      /* the kernel was built for another device than the one to launch on */
  PRECAST_LAUNCH_ERROR = 9,      /* the kernel refused its arguments, or CUDA the launch */
  PRECAST_OUT_OF_MEMORY = 10
} precast_status;

/* A text that this library returned. NULL is allowed. */
PRECAST_API void precast_free(char *text);

/* --- caches --- */

typedef struct precast_caches precast_caches;

/* How caches are opened. Set size to sizeof(precast_options) and the rest to 0, then what is to differ. */
typedef struct {
  size_t size;
  const char *search;  /* folders of caches, ':' between them, the preferred first; NULL: PRECAST_CACHE_PATH */
  const char *pins;    /* NAME=SHA256 of each index.json, or a file of such; NULL: PRECAST_PIN; "": no pins */
  const char *tvm_ffi; /* the path of libtvm_ffi.so; NULL: PRECAST_TVM_FFI, else where the linker finds it */
  const char *cuda;    /* the path of libcuda.so.1; NULL: where the linker finds it */
  const char *zstd;    /* the path of libzstd.so.1; NULL: where the linker finds it */
} precast_options;

/* Open caches for reading. It is an error if one of them cannot be used. NULL for options takes the environment's. */
PRECAST_API precast_status precast_open(const precast_options *options, precast_caches **caches, char **error);

/* Kernels that were made from them stay good. NULL is allowed. */
PRECAST_API void precast_close(precast_caches *caches);

/* --- kernels --- */

typedef struct precast_kernel precast_kernel;

/* What is asked for. Set size to sizeof(precast_request) and the rest to 0, then what is asked. */
typedef struct {
  size_t size;
  const char *op;
  const char *config;  /* a JSON object such as {"dtype": "bfloat16", "hidden": 4096}; NULL: {} */
  const char *problem; /* sizes by name, for a choice by measurements, such as {"m": 64}; NULL: none */
  const char *target;  /* such as sm_90a: resolve for that architecture instead of a device; NULL: for a device */
  int32_t device;      /* 1 more than the CUDA device's number; 0: the current context's device, else the first one */
  int32_t verified;    /* not 0: only a variant that was verified on a GPU of this compute capability */
} precast_request;

/* A value of verified: a variant that was on no such GPU may have passed precast verify --emulate. */
#define PRECAST_VERIFIED_EMULATED 2

/* Find, check and open the variant that serves a request. The same request gives another object each time. */
PRECAST_API precast_status precast_get(precast_caches *caches, const precast_request *request, precast_kernel **kernel,
                                       char **error);

/* The decision that precast_get would make, as text: each candidate, of thousands the nearest, and why it was taken or
 * refused. */
PRECAST_API precast_status precast_explain(precast_caches *caches, const precast_request *request, char **text,
                                           char **error);

/* NULL is allowed. */
PRECAST_API void precast_release(precast_kernel *kernel);

/* The artifact's key; its config and its signature as JSON; its target. They live as long as the kernel.
 * docs/format.md has the fields of a signature: the arguments in call order, and the symbols in their shapes. */
PRECAST_API const char *precast_key(const precast_kernel *kernel);
PRECAST_API const char *precast_config(const precast_kernel *kernel);
PRECAST_API const char *precast_signature(const precast_kernel *kernel);
PRECAST_API const char *precast_target(const precast_kernel *kernel);

/* --- launches --- */

typedef enum {
  PRECAST_NONE = 0,
  PRECAST_INT = 1,
  PRECAST_BOOL = 2,
  PRECAST_FLOAT = 3,
  PRECAST_POINTER = 4, /* an address, or a stream that the kernel takes as an argument */
  PRECAST_TENSOR = 5,  /* a DLTensor, as dlpack.h of DLPack 1 declares it, with its strides; it is borrowed */
  PRECAST_TUPLE = 6
} precast_kind;

typedef struct precast_value {
  int32_t kind;  /* a precast_kind */
  int32_t count; /* of a tuple: its members; else 0 */
  union {
    int64_t integer; /* also of a bool */
    double real;
    void *pointer;
    const void *tensor; /* const DLTensor * */
    const struct precast_value *members;
  } as;
} precast_value;

/* Launch on a stream, a CUstream or cudaStream_t; NULL is the default stream. It returns when the launch is made.
 *
 * The arguments are those of the signature, in its order, without those of kind env_stream, which is the stream given
 * here. The device is that of the first tensor on a CUDA device, else the one that the kernel was asked for; its
 * primary context must be current, as after cudaSetDevice or cuDevicePrimaryCtxRetain and cuCtxSetCurrent. */
PRECAST_API precast_status precast_call(precast_kernel *kernel, const precast_value *arguments, size_t count,
                                        void *stream, char **error);

#ifdef __cplusplus
}
#endif
#endif
