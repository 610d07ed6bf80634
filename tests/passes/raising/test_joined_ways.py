"""Sums whose terms a flag of the launch chooses, and what the first thread adds to a total before it stores that."""

from __future__ import annotations

import pytest

from ktc.ir.nodes import If, Reduce, Store
from ktc.ir.text import print_kernel
from ktc.ir.walk import walk
from ktc.passes.raising.check.exact_check import Reference

from .raised_once import raised

PRODUCT = """
__global__ void product(const float* __restrict__ a, const float* __restrict__ b, const float* __restrict__ bias,
                        float* __restrict__ c, bool turned, bool whole, int n, int m) {
  const int col = blockIdx.x, tid = threadIdx.x;
  if (col >= m) return;
  float sum = 0.0f;
  if (turned) {
    const float* row = b + col * n;
    for (int k = tid; k < n; k += blockDim.x) sum += a[k] * row[k];
  } else if (whole) {
    for (int k = tid; k < n; k += blockDim.x) sum += a[k] * b[k * m + col];
  } else {
    for (int i = tid; i < LAST; i += blockDim.x) sum += a[i];
  }
  for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  __shared__ float parts[32];
  if (tid % 32 == 0) parts[tid / 32] = sum;
  __syncthreads();
  if (tid == 0) {
    FIRST
    float total = 0.0f;
    for (int w = 0; w < (blockDim.x + 31) / 32; ++w) total += parts[w];
    THEN
    c[col] = total;
  }
}
void run(const float* a, const float* b, const float* bias, float* c, bool turned, bool whole, int n, int m) {
  product<<<m, 128>>>(a, b, bias, c, turned, whole, n, m);
}
"""


def product(last: str = "n", first: str = "", then: str = "") -> str:
    return PRODUCT.replace("LAST", last).replace("FIRST", first).replace("THEN", then)


def test_ways_through_the_same_iterations_are_one_sum() -> None:
    kernel, outcome = raised(product())
    found = print_kernel(outcome.kernel)
    assert "over k in 0..n @ [thread.x 128, seq]" in found
    assert not Reference(kernel).differs(outcome.kernel)


def test_ways_of_other_lengths_stay_loops_of_their_own() -> None:
    _, outcome = raised(product(last="n / 2"))
    assert "over tid in 0..128" in print_kernel(outcome.kernel)


@pytest.mark.parametrize("first, then", [("", "if (bias != nullptr) total += bias[col];"),
                                         ("const float b0 = bias[col];", "total += b0;")])  # fmt: skip
def test_what_the_first_thread_adds_from_memory_is_no_part_of_the_exchange(first: str, then: str) -> None:
    kernel, outcome = raised(product(first=first, then=then))
    body = outcome.kernel.body
    (total,) = (s for s in walk(body) if isinstance(s, Reduce))
    assert str(total.hi) == "n" or "over k in 0..n" in print_kernel(outcome.kernel)
    assert "tid" not in print_kernel(outcome.kernel) and any(isinstance(s, Store) for s in walk(body))
    assert not any("threadIdx" in str(s.cond) for s in walk(body) if isinstance(s, If))
    assert not Reference(kernel).differs(outcome.kernel)
