// Baseline: merge_attn_states as an expert writes it today: one thread per 16 bytes of the output, flat over
// (token, head, dim / 8), weights recomputed by every thread.
#include <cuda_fp16.h>

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

struct alignas(16) half8 {
  __half2 h[4];
};

extern "C" __global__ void merge_attn_states_hand(__half* __restrict__ out, float* __restrict__ out_lse,
                                                  const __half* __restrict__ v_a, const float* __restrict__ lse_a,
                                                  const __half* __restrict__ v_b, const float* __restrict__ lse_b,
                                                  int num_tokens, int num_heads, int head_dim) {
  const int per_row = head_dim / 8;
  const long long t = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  const long long row = t / per_row;
  const int piece = t % per_row;
  if (row >= (long long)num_tokens * num_heads) return;
  const int token = row / num_heads, head = row % num_heads;
  float a = lse_a[head * num_tokens + token], b = lse_b[head * num_tokens + token];
  a = isinf(a) ? -INFINITY : a;
  b = isinf(b) ? -INFINITY : b;
  const float m = fmaxf(a, b);
  const float ea = __expf(a - m), eb = __expf(b - m), sum = ea + eb;
  const float pa = ea / sum, pb = eb / sum;
  const half8 x = *reinterpret_cast<const half8*>(v_a + row * head_dim + piece * 8);
  const half8 y = *reinterpret_cast<const half8*>(v_b + row * head_dim + piece * 8);
  half8 r;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float2 p = __half22float2(x.h[j]), q = __half22float2(y.h[j]);
    r.h[j] = __floats2half2_rn(pa * p.x + pb * q.x, pa * p.y + pb * q.y);
  }
  *reinterpret_cast<half8*>(out + row * head_dim + piece * 8) = r;
  if (piece == 0) out_lse[head * num_tokens + token] = logf(sum) + m;
}
