"""Groups of threads that are parts of a row of a block of two dimensions."""

from __future__ import annotations

import numpy as np

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.nodes import Par, Reduce
from ktc.ir.walk import walk
from ktc.passes.core.base import Result
from ktc.passes.lowering import materialise
from ktc.passes.raising.raise_ import Raise

SHARES = """
__global__ void shares(const float* __restrict__ x, float* __restrict__ y, int rows) {
  int row = blockIdx.x * 16 + threadIdx.y * 4 + threadIdx.x / 8, lane = threadIdx.x % 8;
  if (row >= rows) return;
  float4 v = *reinterpret_cast<const float4*>(x + row * 32 + lane * 4);
  float sum = v.x + v.y + v.z + v.w;
#pragma unroll
  for (int d = 4; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d, 8);
  y[row * 32 + lane * 4] = v.x / sum;
  y[row * 32 + lane * 4 + 1] = v.y / sum;
  y[row * 32 + lane * 4 + 2] = v.z / sum;
  y[row * 32 + lane * 4 + 3] = v.w / sum;
}
void go(const float* x, float* y, int rows) { shares<<<(rows + 15) / 16, dim3(32, 4)>>>(x, y, rows); }
"""


def test_a_row_a_group_of_lanes_that_leaves_as_a_whole() -> None:
    kernel = load(SHARES, name="shares.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result), outcome
    assert [type(s) for s in walk(outcome.kernel.body) if isinstance(s, Par | Reduce)] == [Par, Reduce, Par]
    for rows in (1, 16, 21):
        args = {"x": np.arange(1, rows * 32 + 1, dtype=np.float32), "y": np.zeros(rows * 32, np.float32), "rows": rows}
        got = run(materialise(outcome.kernel), args, domain="field")
        assert got.ok
        np.testing.assert_array_equal(got.outputs["y"], run(kernel, args, domain="field").outputs["y"])
