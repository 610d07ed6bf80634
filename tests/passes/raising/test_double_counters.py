"""Loops that move two counters on and end by either."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.nodes import Par
from ktc.ir.walk import walk
from ktc.passes.core.base import Result
from ktc.passes.raising.raise_ import Raise

TILES = """
__global__ void tiles(float* __restrict__ y, const float* __restrict__ x, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  for (int r = 0; COND; MOVES) y[i] += x[i] * 3;
}
void go(float* y, const float* x, int n) { tiles<<<(n + 127) / 128, 32>>>(y, x, n); }
"""


def as_loops(source: str, n: int = 300) -> list[str]:
    """The loops that ``source`` is raised to, which do what it does where there are several blocks."""
    kernel = load(source, name="k.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result), outcome
    x = np.arange(n, dtype=np.float32)
    results = [run(k, {"x": x, "y": np.ones(n, np.float32), "n": n}) for k in (kernel, outcome.kernel)]
    assert results[1].findings == [] and results[0].outputs["y"].tolist() == results[1].outputs["y"].tolist()
    return [s.var.name for s in walk(outcome.kernel.body) if isinstance(s, Par)]


@pytest.mark.parametrize("cond", ["r < 4 && i < n", "i < n && r <= 3"])
@pytest.mark.parametrize("moves", ["r++, i += blockDim.x", "i += 32, ++r"])
def test_rounds_of_a_block_are_one_loop(cond, moves):
    assert as_loops(TILES.replace("COND", cond).replace("MOVES", moves)) == ["i"]


@pytest.mark.parametrize(
    "body",
    [
        "int r = 0; for (; i < n; i += 32) { if (r < 4) y[i] += x[i] * 3; r += 1; }",
        "int r = 0; while (r < 4 && i < n) { y[i] += x[i] * 3; r += 1; if (x[i] < 0) break; i += 32; }",
        "int r = 0; while (i < n && r < 4) { if (r != 2) { y[i] += x[i] * 3; } i += 32; r += x[i < n ? i : 0] >= 0; }",
    ],
)
def test_other_counters_end_loops_as_they_do_in_the_source(body):
    as_loops(TILES.replace("for (int r = 0; COND; MOVES) y[i] += x[i] * 3;", body))


def test_a_counter_that_is_asked_for_later_is_what_the_source_leaves():
    loop = "int r = 0; for (; r < 3 && i < n; r++, i += 32) y[i] += x[i] * 3;"
    after = "int first = blockIdx.x * 128 + threadIdx.x; if (first < n) y[first] += r;"
    as_loops(TILES.replace("for (int r = 0; COND; MOVES) y[i] += x[i] * 3;", f"{loop} {after}"))
