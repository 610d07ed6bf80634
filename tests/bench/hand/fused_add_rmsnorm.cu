// Baseline: fused_add_rmsnorm as an expert writes it today. The row stays in registers, shuffles and one shared slot a
// warp for the sum. ITEMS 16-byte pieces a thread; blockDim.x * 8 * ITEMS covers the row.
#include <cuda_fp16.h>

struct alignas(16) half8 {
  __half2 h[4];
};

template <int ITEMS>
__device__ __forceinline__ void body(__half* input, __half* residual, const __half* weight, float eps, int d) {
  __shared__ float part[32];
  const long long row = (long long)blockIdx.x * d;
  float x[ITEMS][8];
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const int i = (k * blockDim.x + threadIdx.x) * 8;
    if (i < d) {
      const half8 a = *reinterpret_cast<const half8*>(input + row + i);
      const half8 b = *reinterpret_cast<const half8*>(residual + row + i);
      half8 r;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float2 p = __half22float2(a.h[j]), q = __half22float2(b.h[j]);
        x[k][2 * j] = p.x + q.x;
        x[k][2 * j + 1] = p.y + q.y;
        sum += x[k][2 * j] * x[k][2 * j] + x[k][2 * j + 1] * x[k][2 * j + 1];
        r.h[j] = __floats2half2_rn(x[k][2 * j], x[k][2 * j + 1]);
      }
      *reinterpret_cast<half8*>(residual + row + i) = r;
    }
  }
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0.0f;
  for (int w = 0; w < blockDim.x / 32; ++w) sum += part[w];
  const float inv = rsqrtf(sum / d + eps);
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const int i = (k * blockDim.x + threadIdx.x) * 8;
    if (i < d) {
      const half8 w = *reinterpret_cast<const half8*>(weight + i);
      half8 r;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float2 f = __half22float2(w.h[j]);
        r.h[j] = __floats2half2_rn(x[k][2 * j] * inv * f.x, x[k][2 * j + 1] * inv * f.y);
      }
      *reinterpret_cast<half8*>(input + row + i) = r;
    }
  }
}

#define KERNEL(N)                                                                                                  \
  extern "C" __global__ void fused_add_rmsnorm_hand_##N(__half* __restrict__ input, __half* __restrict__ residual, \
                                                        const __half* __restrict__ weight, float eps, int d) {     \
    body<N>(input, residual, weight, eps, d);                                                                      \
  }
KERNEL(1)
KERNEL(2)
KERNEL(4)
