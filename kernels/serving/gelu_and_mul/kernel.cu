// GeGLU gate: out[t, i] = gelu(input[t, i]) * input[t, d + i], with the tanh form of gelu.
//
//   input  [num_tokens, 2 * d]   the gate half, then the up half
//   out    [num_tokens, d]

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
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

__device__ __forceinline__ float gelu_tanh(float x) {
  const float inner = 0.7978845608f * (x + 0.044715f * x * x * x);  // sqrt(2 / pi)
  return 0.5f * x * (1.0f + tanhf(inner));
}

// One block per token.
template <typename T>
__global__ void gelu_and_mul_kernel(T* __restrict__ out, const T* __restrict__ input, const int d) {
  const int64_t token = blockIdx.x;
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) {
    const float gate = to_float(input[token * 2 * d + i]);
    const float up = to_float(input[token * 2 * d + d + i]);
    out[token * d + i] = from_float<T>(gelu_tanh(gate) * up);
  }
}

template <typename T>
void gelu_and_mul(T* out, const T* input, int num_tokens, int d, cudaStream_t stream) {
  dim3 grid(num_tokens);
  dim3 block(std::min(d, 1024));
  gelu_and_mul_kernel<T><<<grid, block, 0, stream>>>(out, input, d);
}
