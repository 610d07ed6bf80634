// The sum of a vector: *out += sum_i x[i]. The caller sets *out to zero first.

#include <cuda_runtime.h>

constexpr int kThreads = 256;  // a power of two: the reduction halves it

__global__ void sum_kernel(float* __restrict__ out, const float* __restrict__ x, const int n) {
  __shared__ float smem[kThreads];

  const int tid = threadIdx.x;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  smem[tid] = i < n ? x[i] : 0.0f;
  __syncthreads();

  for (int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
    if (tid < stride) {
      smem[tid] += smem[tid + stride];
    }
    __syncthreads();
  }

  if (tid == 0) {
    atomicAdd(out, smem[0]);
  }
}

void sum(float* out, const float* x, int n, cudaStream_t stream) {
  cudaMemsetAsync(out, 0, sizeof(float), stream);
  sum_kernel<<<(n + kThreads - 1) / kThreads, kThreads, 0, stream>>>(out, x, n);
}
