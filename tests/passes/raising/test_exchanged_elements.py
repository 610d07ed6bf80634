"""Values that threads combine through a pointer to a private array: its elements are variables of their own."""

from __future__ import annotations

import pytest

from ktc.ir.frontend import load
from ktc.ir.text import print_kernel
from ktc.passes.raising.lanes.exchanged_lanes import lanes_apart

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


IN_BYTES = """
struct Parts { int many; float scale; };
__global__ void counts(int* out, const int* in, const float* scale) {
  extern __shared__ __align__(8) unsigned char mem[];
  Parts& parts = reinterpret_cast<Parts&>(mem);
  int n = in[blockIdx.x * 32 + threadIdx.x];
  if (threadIdx.x == 0) parts.scale = scale[blockIdx.x];
  __syncthreads();
  float by = parts.scale;
  __syncthreads();
  for (int o = 16; o > 0; o >>= 1) n += __shfl_down_sync(0xffffffff, n, o);
  if (threadIdx.x == 0) parts.many = n;
  __syncthreads();
  out[blockIdx.x * 32 + threadIdx.x] = parts.many * by;
}
void launch(int* out, const int* in, const float* scale, int rows) { counts<<<rows, 32, 8>>>(out, in, scale); }
"""


def test_a_sum_that_is_handed_on_in_bytes_is_all_of_them() -> None:
    found = print_kernel(raised(IN_BYTES)[1].kernel)
    assert "reduce(+) n: i32" in found and "shfl" not in found and "mem[0 +: 4] as.bit i32 * by" in found


PAIRS = """
__device__ float2 warp_sum(float2 a) {
  for (int o = 16; o > 0; o >>= 1) {
    a.x += __shfl_xor_sync(0xffffffff, a.x, o);
    a.y += __shfl_xor_sync(0xffffffff, a.y, o);
  }
  return a;
}
__global__ void rows(float* y, const float* x, int n) {
  __shared__ float2 part[32];
  float2 both = make_float2(0.f, 0.f);
  for (int i = threadIdx.x; i < n; i += THREADS) {
    const float v = x[blockIdx.x * n + i];
    both.x += v;
    both.y += v * v;
  }
  both = warp_sum(both);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = both;
  __syncthreads();
  both = threadIdx.x % 32 < THREADS / 32 ? part[threadIdx.x % 32] : make_float2(0.f, 0.f);
  both = warp_sum(both);
  SWAP
  if (threadIdx.x == 0) { y[blockIdx.x * 2] = both.x; y[blockIdx.x * 2 + 1] = both.y; }
}
void launch(float* y, const float* x, int rows_, int n) { rows<<<rows_, THREADS>>>(y, x, n); }
"""


@pytest.mark.parametrize("threads", [256, 1024])
def test_two_sums_that_are_handed_on_as_a_vector(threads: int) -> None:
    found = print_kernel(raised(PAIRS.replace("THREADS", str(threads)).replace("SWAP", ""))[1].kernel)
    assert "reduce(+) both_0: f32 = 0.0, (+) both_1: f32 = 0.0 over i in 0..n" in found
    assert "shfl" not in found and "array" not in found and "y[block_x * 2_u32 + 1_u32] = both_1" in found


def test_lanes_that_change_places_are_read_before_either_is_written() -> None:
    source = PAIRS.replace("THREADS", "256").replace("SWAP", "both = make_float2(both.y, both.x);")
    found = print_kernel(raised(source)[1].kernel)
    assert "shfl" not in found and "yield v * v, v" in found
    assert "y[block_x * 2_u32] = both_0" in found and "y[block_x * 2_u32 + 1_u32] = both_1" in found


def test_a_vector_that_is_taken_as_a_whole_stays_one() -> None:
    source = PAIRS.replace("SWAP", "*(float2*)(y + 2 * blockIdx.x) = both;").replace("THREADS", "256")
    kernel = load(source, name="k.cu")
    assert lanes_apart(kernel) is kernel
