"""Guards by differences of unsigned sizes, at sizes at which those wrap."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.passes.core.base import Result
from ktc.passes.raising.check.wrapped_differences import wrapped_sizes, wrapping
from ktc.passes.raising.raise_ import Raise

INSIDE = """
__global__ void k(const float* x, float* y, unsigned w, unsigned h) {
  unsigned c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
  if (c - 1 < w - 2 && r - 1 < h - 2) y[r * w + c] = x[(r - 1) * w + c] + x[(r + 1) * w + c];
}
void launch(const float* x, float* y, int w, int h) {
  dim3 block(16, 16), grid((w + 15) / 16, (h + 15) / 16);
  k<<<grid, block>>>(x, y, w, h);
}
"""


@pytest.mark.parametrize(("w", "h"), [(1, 3), (3, 1), (4, 5)])
def test_a_difference_that_wraps_bounds_nothing(w: int, h: int) -> None:
    kernel = load(INSIDE, name="source.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result)
    args = {"x": np.arange(99, dtype=np.float32), "y": np.zeros(99, np.float32), "w": w, "h": h}
    want, got = (run(k, args, domain="float") for k in (kernel, outcome.kernel))
    assert want.ok and want.outputs["y"].any()
    np.testing.assert_array_equal(got.outputs["y"], want.outputs["y"])


def test_sizes_that_wrap_are_tried_beside_sizes_that_have_an_inside() -> None:
    kernel = load(INSIDE.replace("h - 2", "(unsigned)(int(h) - 5)"), name="source.cu")
    assert {s.name: n for s, n in wrapping(kernel).items()} == {"w": 1, "h": 4}
    tried = {(s["w"], s["h"]) for s in wrapped_sizes(kernel, 1, 1e9, 1 << 13)}
    assert {(1, 3), (3, 1), (3, 4)} <= tried


def test_signed_differences_are_none_of_these() -> None:
    assert not wrapping(load(INSIDE.replace("unsigned", "int"), name="source.cu"))
