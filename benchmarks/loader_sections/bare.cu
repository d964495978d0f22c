// The least that a launch can cost: a kernel with the parameters of ``scale``, launched from C++ in a loop.
#include <chrono>
#include <cstdint>
#include <cuda_runtime.h>

struct Vector {
  float *data;
  int64_t size;
};

__global__ void scale(Vector x, Vector out, float factor) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory");
#endif
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < x.size) out.data[i] = x.data[i] * factor;
}

// Microseconds of host time a launch, over ``count`` launches back to back on a stream.
// Each may begin while the one before ends where ``overlap`` is 1, as those of precast's kernels may.
extern "C" double bare(float *x, float *out, int64_t size, int count, cudaStream_t stream, int overlap) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(unsigned((size + 127) / 128));
  config.blockDim = dim3(128);
  config.stream = stream;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = overlap;
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) cudaLaunchKernelEx(&config, scale, Vector{x, size}, Vector{out, size}, 2.0f);
  std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
  return cudaGetLastError() == cudaSuccess ? taken.count() / count : -1.0;
}
