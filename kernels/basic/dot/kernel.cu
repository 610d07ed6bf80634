// The dot product of two vectors: *out += sum_i x[i] * y[i]. The caller sets *out to zero first.

#include <cuda_runtime.h>

constexpr int kThreads = 256;  // a power of two: the reduction halves it

// A grid-stride loop, a tree in shared memory, one atomic a block.
__global__ void dot_kernel(float* __restrict__ out, const float* __restrict__ x, const float* __restrict__ y,
                           const int n) {
  __shared__ float smem[kThreads];

  const int tid = threadIdx.x;
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    sum += x[i] * y[i];
  }
  smem[tid] = sum;
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

void dot(float* out, const float* x, const float* y, int n, cudaStream_t stream) {
  cudaMemsetAsync(out, 0, sizeof(float), stream);
  dot_kernel<<<(n + 8 * kThreads - 1) / (8 * kThreads), kThreads, 0, stream>>>(out, x, y, n);
}
