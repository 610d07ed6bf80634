"""Maxima that a thread keeps by a comparison, of values of its own."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.nodes import Call
from ktc.ir.walk import all_exprs
from ktc.passes.core.base import Result
from ktc.passes.raising.raise_ import Raise

POOL = """
__global__ void pool(const float *x, float *y, int n, int d) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= n) return;
  float m = -INFINITY;
  for (int k = 0; k < d; k++) KEEP
  y[i] = m;
}
void run(const float *x, float *y, int n, int d) { pool<<<(n + 63) / 64, 64>>>(x, y, n, d); }
"""


@pytest.mark.parametrize(
    "keep", ["if (x[i * d + k] > m) m = x[i * d + k];", "m = x[i * d + k] > m ? x[i * d + k] : m;"]
)
def test_the_first_of_two_zeros_is_kept(keep: str) -> None:
    kernel = load(POOL.replace("KEEP", keep), name="k.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result), outcome
    assert not any(isinstance(e, Call) and e.fn == "max" for e in all_exprs(outcome.kernel.body))
    x = np.array([0.0, -0.0, -0.0, 0.0, -1.0, -0.0], np.float32)
    given = {"x": x, "y": np.zeros(3, np.float32), "n": 3, "d": 2}
    found = run(outcome.kernel, given, domain="float").outputs["y"]
    assert np.signbit(found).tolist() == [False, True, True]
