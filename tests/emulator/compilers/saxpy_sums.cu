// nvcc -ptx -arch=sm_90a saxpy_sums.cu -o saxpy_sums.ptx
// y = a * x + y, and the sum of y over each block, by warp shuffles and shared memory.
extern "C" __global__ void saxpy_sums(float *y, const float *x, float *sums, float a, int n) {
  __shared__ float of_warps[32];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = 0.0f;
  if (i < n) y[i] = value = fmaf(a, x[i], y[i]);
  for (int step = 16; step; step /= 2) value += __shfl_down_sync(~0u, value, step);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    float sum = 0.0f;
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) sum += of_warps[warp];
    sums[blockIdx.x] = sum;
  }
}
