// RMS normalisation of each row: out = x * rsqrt(mean(x^2) + eps) * weight.
//
//   input, out  [num_tokens, hidden_size]
//   weight      [hidden_size]

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

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

constexpr int kThreads = 256;  // a power of two: the reduction halves it

// One block per row.
template <typename T>
__global__ void rmsnorm_kernel(T* __restrict__ out, const T* __restrict__ input, const T* __restrict__ weight,
                               const float eps, const int hidden_size) {
  __shared__ float smem[kThreads];

  const int tid = threadIdx.x;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * hidden_size;

  float sum_sq = 0.0f;
  for (int i = tid; i < hidden_size; i += blockDim.x) {
    const float x = to_float(input[row + i]);
    sum_sq += x * x;
  }
  smem[tid] = sum_sq;
  __syncthreads();

  for (int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
    if (tid < stride) {
      smem[tid] += smem[tid + stride];
    }
    __syncthreads();
  }

  const float inv_rms = rsqrtf(smem[0] / hidden_size + eps);

  for (int i = tid; i < hidden_size; i += blockDim.x) {
    const float x = to_float(input[row + i]);
    out[row + i] = from_float<T>(x * inv_rms * to_float(weight[i]));
  }
}

template <typename T>
void rmsnorm(T* out, const T* input, const T* weight, float eps, int num_tokens, int hidden_size,
             cudaStream_t stream) {
  rmsnorm_kernel<T><<<num_tokens, kThreads, 0, stream>>>(out, input, weight, eps, hidden_size);
}
