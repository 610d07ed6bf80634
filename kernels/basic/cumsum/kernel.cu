// The running sum along each row: out[r, i] = x[r, 0] + ... + x[r, i].
//
//   x, out  [rows, cols]

#include <cuda_runtime.h>

#include <cstdint>

// One thread per row.
__global__ void cumsum_kernel(float* __restrict__ out, const float* __restrict__ x, const int rows, const int cols) {
  const int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) {
    float sum = 0.0f;
    for (int i = 0; i < cols; ++i) {
      sum += x[static_cast<int64_t>(r) * cols + i];
      out[static_cast<int64_t>(r) * cols + i] = sum;
    }
  }
}

void cumsum(float* out, const float* x, int rows, int cols, cudaStream_t stream) {
  const int threads = 128;
  cumsum_kernel<<<(rows + threads - 1) / threads, threads, 0, stream>>>(out, x, rows, cols);
}
