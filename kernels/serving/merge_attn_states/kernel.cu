// Merges attention over two disjoint sets of keys (a cached prefix and the new suffix, say) into attention over
// their union, from the partial outputs and their log-sum-exps:
//
//   m   = max(lse_a, lse_b),  p_a = e^(lse_a - m),  p_b = e^(lse_b - m)
//   out = (p_a v_a + p_b v_b) / (p_a + p_b),  out_lse = log(p_a + p_b) + m
//
//   v_a, v_b, out          [num_tokens, num_heads, head_dim]
//   lse_a, lse_b, out_lse  [num_heads, num_tokens], float

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

// One block per (token, head).
template <typename T>
__global__ void merge_attn_states_kernel(T* __restrict__ out, float* __restrict__ out_lse, const T* __restrict__ v_a,
                                         const float* __restrict__ lse_a, const T* __restrict__ v_b,
                                         const float* __restrict__ lse_b, const int num_tokens, const int num_heads,
                                         const int head_dim) {
  const int token_idx = blockIdx.x;
  const int head_idx = blockIdx.y;

  float a = lse_a[head_idx * num_tokens + token_idx];
  float b = lse_b[head_idx * num_tokens + token_idx];
  // A side that saw no key reports an infinity of either sign: give it no weight.
  a = isinf(a) ? -INFINITY : a;
  b = isinf(b) ? -INFINITY : b;

  const float m = fmaxf(a, b);
  const float exp_a = expf(a - m);
  const float exp_b = expf(b - m);
  const float sum = exp_a + exp_b;
  const float p_a = exp_a / sum;
  const float p_b = exp_b / sum;

  const int64_t row = (static_cast<int64_t>(token_idx) * num_heads + head_idx) * head_dim;
  const T* va = v_a + row;
  const T* vb = v_b + row;
  T* dst = out + row;
  for (int i = threadIdx.x; i < head_dim; i += blockDim.x) {
    dst[i] = from_float<T>(p_a * to_float(va[i]) + p_b * to_float(vb[i]));
  }

  if (threadIdx.x == 0) {
    out_lse[head_idx * num_tokens + token_idx] = logf(sum) + m;
  }
}

template <typename T>
void merge_attn_states(T* out, float* out_lse, const T* v_a, const float* lse_a, const T* v_b, const float* lse_b,
                       int num_tokens, int num_heads, int head_dim, cudaStream_t stream) {
  dim3 grid(num_tokens, num_heads);
  dim3 block(std::min(head_dim, 1024));
  merge_attn_states_kernel<T><<<grid, block, 0, stream>>>(out, out_lse, v_a, lse_a, v_b, lse_b, num_tokens, num_heads,
                                                          head_dim);
}
