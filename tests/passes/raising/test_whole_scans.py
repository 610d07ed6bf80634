"""Rows whose running value is made tile by tile, each in two levels: warps, then what the warps come to."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.nodes import Alloc, For, Scan
from ktc.ir.text import print_expr, print_kernel
from ktc.ir.walk import walk
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from tests.passes.raising.raised_once import raised

FRAME = """
#include <cub/cub.cuh>
__device__ int plus(int a, int b) { return a + b; }
__global__ void running(const int* __restrict__ x, int* __restrict__ y, int n) {
  __shared__ int sums[9];
  __shared__ int carry;
  int row = blockIdx.x, t = threadIdx.x, lane = t % 32, warp = t / 32;
  if (t == 0) carry = ZERO;
  __syncthreads();
  for (int first = 0; first < n; first += 128) {
    int i = first + t;
    int v = i < n ? x[row * n + i] : ZERO;
BODY
    __syncthreads();
  }
}
void go(const int* x, int* y, int rows, int n) { running<<<rows, 128>>>(x, y, n); }
"""

CUB = """
    typedef cub::BlockScan<int, 128> Scan;
    __shared__ typename Scan::TempStorage temp;
    int sum, all;
    Scan(temp).InclusiveSum(v, sum, all);
    if (i < n) y[row * n + i] = sum + carry;
    __syncthreads();
    if (t == 0) carry += all;"""

TWO_LEVELS = """
    for (int d = 1; d < 32; d *= 2) {
      int other = __shfl_up_sync(0xffffffffu, v, d);
      if (lane >= d) v = OP(v, other);
    }
    if (lane == 31) sums[warp] = v;
    __syncthreads();
    if (t == 0) {
      int before = ZERO;
      for (int w = 0; w < 4; ++w) { int own = sums[w]; sums[w] = before; before = OP(before, own); }
      sums[8] = before;
    }
    __syncthreads();
    if (i < n) y[row * n + i] = OP(OP(v, sums[warp]), carry);
    __syncthreads();
    if (t == 0) carry = OP(carry, sums[8]);"""

SOURCES = {
    "cub": (FRAME.replace("BODY", CUB).replace("ZERO", "0"), "+"),
    "sum": (FRAME.replace("BODY", TWO_LEVELS).replace("OP", "plus").replace("ZERO", "0"), "+"),
    "max": (FRAME.replace("BODY", TWO_LEVELS).replace("OP", "max").replace("ZERO", "(-2147483647 - 1)"), "max"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_one_scan_over_the_row(name: str) -> None:
    source, op = SOURCES[name]
    kernel, outcome = raised(source)
    (scan,) = [s for s in walk(outcome.kernel.body) if isinstance(s, Scan)]
    assert (scan.acc.op, print_expr(scan.hi)) == (op, "n"), print_kernel(outcome.kernel)
    assert not [s for s in walk(outcome.kernel.body) if isinstance(s, For | Alloc)]
    x = np.random.default_rng(2).integers(-50, 50, (3, 300)).astype(np.int32)
    again = parse_script(f"scan{{loop={scan.var.name} map=[vec 2, thread.x 64, unroll 2, seq]}}")
    spread = apply_script(outcome.kernel, again)
    assert spread.refused is None
    for form in (outcome.kernel, spread.kernel):
        args = {"x": x.reshape(-1), "y": np.zeros(900, np.int32), "n": 300, "rows": 3}
        got, want = (run(k, args, domain="int").outputs["y"] for k in (materialise(form), kernel))
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(want, (np.cumsum if op == "+" else np.maximum.accumulate)(x, axis=1).reshape(-1))


def test_what_is_carried_otherwise_stays_a_loop_over_tiles() -> None:
    source, _ = SOURCES["sum"]
    _, outcome = raised(source.replace("carry = plus(carry, sums[8]);", "carry = plus(carry, 2 * sums[8]);"))
    assert [s for s in walk(outcome.kernel.body) if isinstance(s, For)]
