"""Trees that add up the first threads of a block alone, as many as a number says: the first one whatever that is."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.nodes import Reduce
from ktc.ir.walk import walk
from ktc.passes.core.base import Result
from ktc.passes.lowering import materialise
from ktc.passes.raising.raise_ import Raise

SOURCE = """
__global__ void firsts(const float* x, float* y, COUNT count) {
  __shared__ float part[64];
  int t = threadIdx.x;
  part[t] = x[blockIdx.x * 64 + t];
  __syncthreads();
  for (int s = 32; s > 0; s >>= 1) {
    if (t < s && t + s < count) part[t] += part[t + s];
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = part[0];
}
void go(const float* x, float* y, COUNT count, int n) { firsts<<<n, 64>>>(x, y, count); }
"""


@pytest.mark.parametrize(
    ("count", "values"), [("int", (-3, 0, 1, 5, 64, 100)), ("unsigned long long", (0, 1, 5, 64, 100))]
)
def test_a_number_of_any_type_says_how_many(count: str, values: tuple[int, ...]) -> None:
    kernel = load(SOURCE.replace("COUNT", count), name="k.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result) and any(isinstance(s, Reduce) for s in walk(outcome.kernel.body)), outcome
    x, y = np.arange(1, 193, dtype=np.float32), np.zeros(3, np.float32)
    for n in values:
        args = {"x": x, "y": y, "count": n, "n": 3}
        want, got = (run(k, args, domain="field").outputs["y"] for k in (kernel, materialise(outcome.kernel)))
        np.testing.assert_array_equal(got, want, f"count = {n}")
