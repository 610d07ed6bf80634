// SwiGLU gate of a transformer's MLP: out[t, i] = silu(input[t, i]) * input[t, d + i].
//
//   input  [num_tokens, 2 * d]   the gate half, then the up half
//   out    [num_tokens, d]

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
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

__device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }

// One block per token.
template <typename T>
__global__ void silu_and_mul_kernel(T* __restrict__ out, const T* __restrict__ input, const int d) {
  const int64_t token_idx = blockIdx.x;
  for (int64_t idx = threadIdx.x; idx < d; idx += blockDim.x) {
    const float gate = to_float(input[token_idx * 2 * d + idx]);
    const float up = to_float(input[token_idx * 2 * d + d + idx]);
    // Multiply in float: one rounding, at the store.
    out[token_idx * d + idx] = from_float<T>(silu(gate) * up);
  }
}

template <typename T>
void silu_and_mul(T* out, const T* input, int num_tokens, int d, cudaStream_t stream) {
  dim3 grid(num_tokens);
  dim3 block(std::min(d, 1024));
  silu_and_mul_kernel<T><<<grid, block, 0, stream>>>(out, input, d);
}
