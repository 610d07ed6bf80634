"""Values that threads combine through a pointer to a private array: its elements are variables of their own."""

from __future__ import annotations

import pytest

from ktc.ir.text import print_kernel

from .raised_once import raised

COMBINED = """
template <int N> __inline__ __device__ void blockReduce(float *pval) {
  __shared__ float shared[N][32];
  int lane = threadIdx.x & 31, wid = threadIdx.x >> 5;
#pragma unroll
  for (int i = 0; i < N; ++i) for (int k = 16; k > 0; k >>= 1) pval[i] += __shfl_xor_sync(0xffffffff, pval[i], k, 32);
  if (lane == 0) {
#pragma unroll
    for (int i = 0; i < N; ++i) shared[i][wid] = pval[i];
  }
  __syncthreads();
  if (threadIdx.x < (blockDim.x >> 5)) {
#pragma unroll
    for (int i = 0; i < N; ++i) pval[i] = shared[i][lane];
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) pval[i] = 0.f;
  }
#pragma unroll
  for (int i = 0; i < N; ++i) for (int k = 16; k > 0; k >>= 1) pval[i] += __shfl_xor_sync(0xffffffff, pval[i], k, 32);
}
__global__ void rows(const float* x, float* y, int n) {
  float a = 0, b = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) { float v = x[blockIdx.x * n + i]; a += v; b += v * v; }
  float r[2] = {FIRST};
  const int both = 2;
  blockReduce<both>(r);
  if (threadIdx.x == 0) { y[blockIdx.x * 2] = r[0]; y[blockIdx.x * 2 + 1] = r[1]; }
}
void launch(const float* x, float* y, int rows_, int n) { rows<<<rows_, 256>>>(x, y, n); }
"""


@pytest.mark.parametrize("first", ["a, b", "b, a"])
def test_two_sums_at_once(first: str) -> None:
    found = print_kernel(raised(COMBINED.replace("FIRST", first))[1].kernel)
    assert "over i in 0..n @ [thread.x 256, seq]" in found and "shfl" not in found and "array" not in found
