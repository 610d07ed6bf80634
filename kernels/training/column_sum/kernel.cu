// The sum of each column, as in the gradient of a bias: out[j] = sum_i x[i, j].
//
//   x    [rows, cols]
//   out  [cols], float

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

// One thread per column.
template <typename T>
__global__ void column_sum_kernel(float* __restrict__ out, const T* __restrict__ x, const int rows, const int cols) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j < cols) {
    float sum = 0.0f;
    for (int i = 0; i < rows; ++i) {
      sum += to_float(x[static_cast<int64_t>(i) * cols + j]);
    }
    out[j] = sum;
  }
}

template <typename T>
void column_sum(float* out, const T* x, int rows, int cols, cudaStream_t stream) {
  const int threads = 256;
  column_sum_kernel<T><<<(cols + threads - 1) / threads, threads, 0, stream>>>(out, x, rows, cols);
}
