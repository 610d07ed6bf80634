// A histogram of bytes: count[x[i]] += 1. The caller sets the counts to zero first.

#include <cuda_runtime.h>

#include <cstdint>

__global__ void histogram_kernel(unsigned int* __restrict__ count, const uint8_t* __restrict__ x, const int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    atomicAdd(&count[x[i]], 1u);
  }
}

void histogram(unsigned int* count, const uint8_t* x, int n, cudaStream_t stream) {
  const int threads = 256;
  cudaMemsetAsync(count, 0, 256 * sizeof(unsigned int), stream);
  histogram_kernel<<<(n + threads - 1) / threads, threads, 0, stream>>>(count, x, n);
}
