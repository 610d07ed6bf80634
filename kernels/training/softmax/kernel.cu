// Softmax of each row: out = exp(x - max(x)) / sum(exp(x - max(x))).
//
//   input, out  [rows, cols]

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) { return x; }
template <>
__device__ __forceinline__ __half from_float<__half>(float x) { return __float2half(x); }
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) { return __float2bfloat16(x); }

constexpr int kThreads = 256;  // a power of two: the reductions halve it

// One block per row, three sweeps over it.
template <typename T>
__global__ void softmax_kernel(T* __restrict__ out, const T* __restrict__ input, const int cols) {
  __shared__ float smem[kThreads];

  const int tid = threadIdx.x;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * cols;

  // The largest element, so that no exponential overflows.
  float largest = -INFINITY;
  for (int i = tid; i < cols; i += blockDim.x) {
    largest = fmaxf(largest, to_float(input[row + i]));
  }
  smem[tid] = largest;
  __syncthreads();
  for (int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
    if (tid < stride) {
      smem[tid] = fmaxf(smem[tid], smem[tid + stride]);
    }
    __syncthreads();
  }
  const float m = smem[0];
  __syncthreads();

  float sum = 0.0f;
  for (int i = tid; i < cols; i += blockDim.x) {
    sum += expf(to_float(input[row + i]) - m);
  }
  smem[tid] = sum;
  __syncthreads();
  for (int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
    if (tid < stride) {
      smem[tid] += smem[tid + stride];
    }
    __syncthreads();
  }
  const float inverse = 1.0f / smem[0];

  for (int i = tid; i < cols; i += blockDim.x) {
    out[row + i] = from_float<T>(expf(to_float(input[row + i]) - m) * inverse);
  }
}

template <typename T>
void softmax(T* out, const T* input, int rows, int cols, cudaStream_t stream) {
  softmax_kernel<T><<<rows, kThreads, 0, stream>>>(out, input, cols);
}
