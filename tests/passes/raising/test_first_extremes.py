"""The place of a row's greatest element where equal ones are told apart by the order in which threads compare."""

from __future__ import annotations

import numpy as np

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.nodes import Par, Reduce
from ktc.ir.walk import walk
from ktc.passes.core.base import Result
from ktc.passes.lowering import materialise
from ktc.passes.raising.raise_ import Raise

GREATEST = """
__global__ void greatest(const float* __restrict__ x, float* __restrict__ most, int* __restrict__ place, int rows) {
  int row = blockIdx.x, at = threadIdx.x;
  float v = x[row * 64 + threadIdx.x];
  DISTANCES {
    float w = __shfl_down_sync(0xffffffffu, v, d);
    int b = __shfl_down_sync(0xffffffffu, at, d);
    if (w > v) { v = w; at = b; }
  }
  __shared__ float vs[2];
  __shared__ int as[2];
  if (threadIdx.x % 32 == 0) { vs[threadIdx.x / 32] = v; as[threadIdx.x / 32] = at; }
  __syncthreads();
  if (threadIdx.x == 0) {
    float best = vs[0];
    int where = as[0];
    if (vs[1] > best) { best = vs[1]; where = as[1]; }
    most[row] = best;
    place[row] = where;
  }
}
void go(const float* x, float* most, int* place, int rows) { greatest<<<rows, 64>>>(x, most, place, rows); }
"""
GROWING, SHRINKING = "for (int d = 1; d < 32; d *= 2)", "for (int d = 16; d > 0; d /= 2)"


def test_neighbours_first_is_the_first_of_equal_elements() -> None:
    kernel = load(GREATEST.replace("DISTANCES", GROWING), name="greatest.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result), outcome
    loops = [s for s in walk(outcome.kernel.body) if isinstance(s, Par | Reduce)]
    assert [s.accs[0].op for s in loops if isinstance(s, Reduce)] == ["max", "min"]
    x = np.random.default_rng(3).integers(0, 9, 5 * 64).astype(np.float32)
    args = {"x": x, "most": np.zeros(5, np.float32), "place": np.zeros(5, np.int32), "rows": 5}
    got = run(materialise(outcome.kernel), args, domain="int").outputs
    np.testing.assert_array_equal(got["place"], x.reshape(5, 64).argmax(axis=1))
    np.testing.assert_array_equal(got["place"], run(kernel, args, domain="int").outputs["place"])


def test_halves_first_leaves_another_of_equal_elements() -> None:
    """Lane 16 is compared with lane 0 before lane 8 is: which of them is taken is no matter of the elements' order."""
    kernel = load(GREATEST.replace("DISTANCES", SHRINKING), name="greatest.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result), outcome
    x = np.random.default_rng(3).integers(0, 9, 5 * 64).astype(np.float32)
    args = {"x": x, "most": np.zeros(5, np.float32), "place": np.zeros(5, np.int32), "rows": 5}
    got, want = (run(k, args, domain="int").outputs["place"] for k in (materialise(outcome.kernel), kernel))
    np.testing.assert_array_equal(got, want)
    assert (want != x.reshape(5, 64).argmax(axis=1)).any()
