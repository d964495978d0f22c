/* libprecast: kernels out of a precast cache, for programs without Python.
 *
 * `precast native CACHE --requests FILE -o FOLDER` decides which kernel each request of a program gets, as precast's
 * Python loader does, and writes a table of these decisions with the kernels beside it. This library reads the table,
 * checks that a kernel runs on this machine, opens it, and launches it on a stream. It needs libc alone; it opens
 * libtvm_ffi.so (of the apache-tvm-ffi package) and libcuda.so.1 while it runs.
 *
 * Each function that can fail returns a status, and puts a text into *error that ends with what to do. Give NULL for
 * error where the text is of no use; else free it with precast_free. On success *error is set to NULL.
 *
 * Threads: every function may be called from any thread at any time, but for the release of an object that another
 * thread still uses. A launch takes no lock. After a fork, only a child that calls exec may go on.
 *
 * One process may use folders with kernels of several versions of the compiler. Opened libraries and device code stay
 * open until the process ends, since a stream may still run them. */
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
  PRECAST_CACHE_ERROR = 2,       /* the folder is missing, incomplete, or of a format that is not read here */
  PRECAST_INTEGRITY_ERROR = 3,   /* bytes in the folder are not those that its table promises */
  PRECAST_OP_NOT_FOUND = 4,      /* the table has no request for the op */
  PRECAST_VARIANT_NOT_FOUND = 5, /* the table lacks the request, or none of its kernels runs here; the text says why */
  PRECAST_LOAD_ERROR = 6,        /* the bytes are right, and yet they cannot be opened here */
  PRECAST_NO_CUDA_DEVICE = 7,    /* there is no usable CUDA device */
  PRECAST_WRONG_DEVICE = 8,      /* the kernel was built for another device than the one to launch on */
  PRECAST_LAUNCH_ERROR = 9,      /* the kernel refused its arguments, or CUDA the launch */
  PRECAST_OUT_OF_MEMORY = 10
} precast_status;

/* A text that this library returned. NULL is allowed. */
PRECAST_API void precast_free(char *text);

/* --- folders --- */

typedef struct precast_table precast_table;

/* How a folder is opened. Set size to sizeof(precast_options) and the rest to 0, then what is to differ. */
typedef struct {
  size_t size;
  const char *sha256;  /* the digest that table.json must have, as `precast native` printed it; NULL: any */
  const char *tvm_ffi; /* the path of libtvm_ffi.so; NULL: PRECAST_TVM_FFI, else where the linker finds it */
  const char *cuda;    /* the path of libcuda.so.1; NULL: where the linker finds it */
} precast_options;

/* Open a folder that `precast native CACHE` wrote. options may be NULL. */
PRECAST_API precast_status precast_open(const char *folder, const precast_options *options, precast_table **table,
                                        char **error);

/* Kernels that were made from it stay good. NULL is allowed. */
PRECAST_API void precast_close(precast_table *table);

/* --- kernels --- */

typedef struct precast_kernel precast_kernel;

/* What is requested: one of the requests that the folder was made for. Keys may have any order, and JSON any spaces;
 * the values must be those of that request. Set size to sizeof(precast_request) and the rest to 0, then the request. */
typedef struct {
  size_t size;
  const char *op;
  const char *config;  /* a JSON object such as {"dtype": "bfloat16", "hidden": 4096}; NULL: {} */
  const char *problem; /* sizes by name, such as {"m": 64}; NULL: none. One that the table lacks gets the kernel of the
                        * smallest listed problem of which no size is smaller: every kernel of a config is right for any
                        * problem, and the measurements say which is fast. */
  const char *target;  /* such as sm_90a: a kernel for that architecture instead of a device's; NULL: for a device */
  int32_t device;      /* 1 more than the CUDA device's number; 0: the current context's device, else the first one */
} precast_request;

/* Look up, check and open the kernel of a request. The same request gives another object each time. */
PRECAST_API precast_status precast_get(precast_table *table, const precast_request *request, precast_kernel **kernel,
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
