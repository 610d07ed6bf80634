// Rotary position embedding of queries or keys, in place (the two halves of a head rotate against each other):
//
//   x1' = x1 cos(t) - x2 sin(t),  x2' = x2 cos(t) + x1 sin(t),  t = position * base^(-2 i / head_dim)
//
//   x          [num_tokens, num_heads, head_dim]
//   cos_sin    [max_position, head_dim]   the cosines of a position, then its sines, float
//   positions  [num_tokens]

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

// One block per (token, head); its threads walk over the pairs.
template <typename T>
__global__ void rope_kernel(T* __restrict__ x, const float* __restrict__ cos_sin, const int* __restrict__ positions,
                            const int num_heads, const int head_dim) {
  const int64_t token = blockIdx.x;
  const int head = blockIdx.y;
  const int half = head_dim / 2;
  const int64_t table = static_cast<int64_t>(positions[token]) * head_dim;
  const int64_t base = (token * num_heads + head) * head_dim;

  for (int i = threadIdx.x; i < half; i += blockDim.x) {
    const float c = cos_sin[table + i];
    const float s = cos_sin[table + half + i];
    const float x1 = to_float(x[base + i]);
    const float x2 = to_float(x[base + half + i]);
    x[base + i] = from_float<T>(x1 * c - x2 * s);
    x[base + half + i] = from_float<T>(x2 * c + x1 * s);
  }
}

template <typename T>
void rope(T* x, const float* cos_sin, const int* positions, int num_tokens, int num_heads, int head_dim,
          cudaStream_t stream) {
  dim3 grid(num_tokens, num_heads);
  dim3 block(head_dim / 2);
  rope_kernel<T><<<grid, block, 0, stream>>>(x, cos_sin, positions, num_heads, head_dim);
}
