"""Vectors that threads keep while they exchange values, several exchanges in a row, sums of coarse types."""

from __future__ import annotations

import pytest

from ktc.ir.frontend import load
from ktc.ir.nodes import Reduce
from ktc.ir.walk import walk
from ktc.passes.core.base import Result
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.raise_ import Raise

SUMS = """
template <int W> __device__ float warp_sum(float v) {
  for (int mask = W / 2; mask >= 1; mask /= 2) v += __shfl_xor_sync(~0u, v, mask);
  return v;
}
template <int W> __device__ float warp_max(float v) {
  for (int mask = W / 2; mask >= 1; mask /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, mask));
  return v;
}
template <int T> __device__ float block_sum(float v) {
  static __shared__ float part[T / 32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  v = warp_sum<32>(v);
  if (lane == 0) part[warp] = v;
  __syncthreads();
  v = lane < T / 32 ? part[lane] : 0.f;
  return __shfl_sync(~0u, warp_sum<T / 32>(v), 0);
}
template <int T> __device__ float block_max(float v) {
  static __shared__ float part[T / 32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  v = warp_max<32>(v);
  if (lane == 0) part[warp] = v;
  __syncthreads();
  v = lane < T / 32 ? part[lane] : -1e30f;
  return __shfl_sync(~0u, warp_max<T / 32>(v), 0);
}
"""

SOFTMAX = (
    SUMS
    + """
__global__ void k(float *x, float *y, int n) {
  const int i = (blockIdx.x * 64 + threadIdx.x) * 4;
  float4 v = reinterpret_cast<float4 *>(&x[i])[0];
  v.x = i < n ? v.x : -1e30f;
  v.w = i + 3 < n ? v.w : -1e30f;
  const float m = block_max<64>(fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
  float4 e;
  e.x = i < n ? expf(v.x - m) : 0.f;
  e.y = i + 1 < n ? expf(v.y - m) : 0.f;
  e.z = i + 2 < n ? expf(v.z - m) : 0.f;
  e.w = i + 3 < n ? expf(v.w - m) : 0.f;
  const float s = block_sum<64>(e.x + e.y + e.z + e.w);
  if (i + 3 < n) {
    float4 r;
    r.x = e.x / s; r.y = e.y / s; r.z = e.z / s; r.w = e.w / s;
    reinterpret_cast<float4 *>(&y[i])[0] = r;
  }
}
void run(float *x, float *y, int n) { k<<<n / 256, 64>>>(x, y, n); }
"""
)

LAYER_NORM = (
    SUMS
    + """
__global__ void k(float *x, float *y, float g, float b, int rows, int n) {
  __shared__ float mean, scale;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float value = i < rows * n ? x[i] : 0.f;
  const float sum = block_sum<128>(value);
  if (threadIdx.x == 0) mean = sum / n;
  __syncthreads();
  float variance = (value - mean) * (value - mean);
  variance = block_sum<128>(variance);
  if (threadIdx.x == 0) scale = rsqrtf(variance / n + 1e-5f);
  __syncthreads();
  if (i < rows * n) y[i] = (value - mean) * scale * g + b;
}
void run(float *x, float *y, float g, float b, int rows, int n) { k<<<rows, 128>>>(x, y, g, b, rows, n); }
"""
)

COARSE = """
#include <cuda_bf16.h>
__global__ void k(const __nv_bfloat16 *a, float *y, int n) {
  __shared__ __nv_bfloat16 part[16];
  const int i = blockIdx.x * 512 + threadIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  __nv_bfloat16 s = i < n ? a[i] : __float2bfloat16(0.f);
  for (int mask = 16; mask >= 1; mask /= 2) s = __hadd(s, __shfl_xor_sync(~0u, s, mask));
  if (lane == 0) part[warp] = s;
  __syncthreads();
  __nv_bfloat16 t = lane < 16 ? part[lane] : __float2bfloat16(0.f);
  if (warp == 0) for (int mask = 8; mask >= 1; mask /= 2) t = __hadd(t, __shfl_xor_sync(~0u, t, mask));
  if (threadIdx.x == 0) atomicAdd(y, __bfloat162float(t));
}
void run(const __nv_bfloat16 *a, float *y, int n) { k<<<(n + 511) / 512, 512>>>(a, y, n); }
"""


@pytest.mark.parametrize(("source", "ops"), [(SOFTMAX, ["max", "+"]), (LAYER_NORM, ["+", "+"]), (COARSE, ["+"])],
                         ids=["softmax", "layer norm", "coarse"])  # fmt: skip
def test_exchanges_become_reductions_and_what_lives_across_them_rows(source: str, ops: list[str]) -> None:
    kernel = load(source, name="k.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result), outcome
    assert [a.op for s in walk(outcome.kernel.body) if isinstance(s, Reduce) for a in s.accs] == ops
    reference = Reference(kernel, instances=4, seed=23)
    assert reference.differs(outcome.kernel) == "" and reference.differs(materialise(outcome.kernel)) == ""
