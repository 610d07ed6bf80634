"""Maxima that leave threads of a large block out: most rows have their largest element elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Reduce
from ktc.ir.walk import walk
from ktc.passes.core.base import Result
from ktc.passes.raising.check.large_arguments import far_arguments
from ktc.passes.raising.check.peaked_rows import HIGHEST, LOWEST, PARTS, peaked
from ktc.passes.raising.raise_ import Raise

TREE = """
__global__ void k(const TYPE* x, TYPE* y, int n) {
  __shared__ TYPE s[1024];
  int t = threadIdx.x;
  TYPE acc = x[(long long)blockIdx.x * n];
  for (int i = t; i < n; i += 1024) acc = PICK(acc, x[(long long)blockIdx.x * n + i]);
  s[t] = acc;
  __syncthreads();
  if (FIRST) s[t] = PICK(s[t], s[t + 512]);
  __syncthreads();
  for (int h = 256; h > 0; h >>= 1) {
    if (t < h) s[t] = PICK(s[t], s[t + h]);
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = s[0];
}
void launch(const TYPE* x, TYPE* y, int n, int rows) { k<<<rows, 1024>>>(x, y, n); }
"""


def source(first: str, pick: str, element: str) -> Kernel:
    return load(TREE.replace("FIRST", first).replace("PICK", pick).replace("TYPE", element), name="source.cu")


@pytest.mark.parametrize(
    ("first", "pick", "element"),
    [("t < 0", "max", "int"), ("t < 511", "fmaxf", "float"), ("t < 480", "fminf", "float")],
)
def test_an_extreme_of_most_threads_is_no_extreme_of_all(first: str, pick: str, element: str) -> None:
    kernel = source(first, pick, element)
    outcome = Raise().run(kernel)
    if isinstance(outcome, Result):
        x = np.full((1024, 1024), 5)
        np.fill_diagonal(x, 3 if pick == "fminf" else 7)
        of = np.int32 if element == "int" else np.float32
        args = {"x": x.astype(of), "y": np.zeros(1024, of), "n": 1024, "rows": 1024}
        want, got = (run(k, args, domain="int", sanitize=False).outputs["y"] for k in (kernel, outcome.kernel))
        np.testing.assert_array_equal(got, want)


def test_an_extreme_of_all_threads_still_is_one() -> None:
    outcome = Raise().run(source("t < 512", "fmaxf", "float"))
    assert isinstance(outcome, Result) and any(isinstance(s, Reduce) for s in walk(outcome.kernel.body))


def test_each_part_of_a_block_has_the_largest_of_a_row() -> None:
    kernel = source("t < 512", "fmaxf", "float")
    rows = [s for sets in far_arguments(kernel, 1, 4_000) for s in sets if s.get("rows") == PARTS]
    x = np.asarray(rows[0]["x"])[: PARTS * 2051].reshape(PARTS, 2051)
    assert {int(c) % 1024 // 32 for c in x.argmax(axis=1)} == set(range(PARTS))
    assert {int(c) % 1024 // 32 for c in x.argmin(axis=1)} == set(range(PARTS))
    assert x.max() == HIGHEST and x.min() == LOWEST and (x.argmax(axis=1) >= 1024).any()


def test_buffers_that_are_no_data_stay_as_they_are() -> None:
    kernel = source("t < 512", "max", "int")
    args = {"x": np.ones(100, np.int32), "y": None, "n": 10, "rows": 3}
    assert "x" not in peaked(kernel, args, 10, 8, 1, whole=False) and "x" in peaked(kernel, args, 10, 8, 1, whole=True)
