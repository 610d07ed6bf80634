"""Sizes that have to be multiples of more than 32, and dynamic memory that a launch does not give."""

from __future__ import annotations

import ktc
from ktc.scaffold import Draft, draft

HALF_AS_MANY = """
__global__ void mean(const float* x, float* y, int n) {
  __shared__ float part[32];
  float sum = 0.f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[blockIdx.x * n + i];
  for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(0xffffffff, sum, by);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0.f;
  for (int w = 0; w < (blockDim.x + 31) / 32; ++w) sum += part[w];
  if (threadIdx.x == 0) y[blockIdx.x] = sum / n;
}
void run(const float* x, float* y, int rows, int n) { mean<<<rows, n / 2>>>(x, y, n); }
"""

KEPT = """
__global__ void twice(const float* x, float* y, int n, bool keep) {
  extern __shared__ float kept[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    if (keep) kept[i] = x[blockIdx.x * n + i];
    y[blockIdx.x * n + i] = 2.f * (keep ? kept[i] : x[blockIdx.x * n + i]);
  }
}
void run(const float* x, float* y, int rows, int n) { twice<<<rows, 128>>>(x, y, n, false); }
"""


def drafted(source: str) -> Draft:
    return draft(ktc.loads(source).kernel)


def test_warps_are_whole_where_a_block_has_half_as_many_threads_as_a_row() -> None:
    d = drafted(HALF_AS_MANY)
    assert not [x for x in d.doubts if "run at" in x]
    assert d.steps["n"] == 64


def test_memory_that_the_launch_does_not_give_bounds_nothing() -> None:
    d = drafted(KEPT)
    assert not d.doubts
    assert max(s["n"] for _, s, _ in d.scenarios) >= 1024


PACKED = """
__global__ void dot(const float* x, const float* scale, float* y, int n) {
  const int group = 64;
  const int packs = (n / group + 8 - 1) / 8;
  float sum = 0.f;
  for (int p = 0; p < packs; ++p)
    for (int i = threadIdx.x; i < 512; i += 32) sum += x[p * 512 + i] * scale[blockIdx.x * packs * 8 + p * 8 + i / 64];
  atomicAdd(&y[blockIdx.x], sum);
}
void run(const float* x, const float* scale, float* y, int rows, int n) { dot<<<rows, 32>>>(x, scale, y, n); }
"""


def test_groups_that_are_counted_in_packs_have_all_their_elements() -> None:
    """``(n / 64 + 7) / 8`` packs of groups: below 512 elements there is part of one."""
    d = drafted(PACKED)
    assert not [x for x in d.doubts if "run at" in x]
    shapes = {n: e.value({"n": 1024, "rows": 3}) for n, e in d.shapes.items() if e is not None}
    assert shapes == {"x": 1024, "scale": 3 * 16, "y": 3}


HEADS = """
__global__ void twice(float2* x, int heads, int width) {
  constexpr size_t warp = 32;
  const int pairs = width / 2;
  const int each = pairs / warp;
  for (int i = 0; i < each; i++) {
    const int at = (blockIdx.x * heads + blockIdx.y) * pairs + threadIdx.x * each + i;
    x[at].x *= 2.f;
    x[at].y *= 2.f;
  }
}
void run(float* x, int tokens, int heads, int width) {
  if (width % 64 != 0) throw 1;
  twice<<<dim3(tokens, heads), 32>>>((float2*)x, heads, width);
}
"""


def test_divisions_of_quotients_that_variables_hold_are_of_the_size() -> None:
    d = drafted(HEADS)
    assert not d.doubts
    assert d.steps["width"] == 64


ROWS_OF_PARTS = """
__global__ void norm(const float* x, float* y, int n, int part) {
  const int parts = n / part, row = blockIdx.x / parts, at = blockIdx.x % parts;
  const int each = part / 32;
  for (int i = 0; i < each; i++) {
    const int k = row * n + at * part + i * 32 + threadIdx.x;
    y[k] = 2.f * x[k];
  }
}
void run(const float* x, float* y, int rows, int n, int part) {
  if (n % part != 0) throw 1;
  if (part % 32 != 0) throw 1;
  norm<<<rows * (n / part), 32>>>(x, y, n, part);
}
"""


def test_a_part_of_a_row_is_a_multiple_of_no_more_than_the_host_asks_for() -> None:
    d = drafted(ROWS_OF_PARTS)
    assert not [x for x in d.doubts if "run at" in x]
    assert d.steps["part"] == 32
