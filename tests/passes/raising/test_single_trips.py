"""Returns out of a thread's loop over the grid: they end one iteration where a thread has no more."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.nodes import Par, Return
from ktc.ir.text import print_expr
from ktc.ir.walk import walk
from ktc.passes.core.base import Refused, Result
from ktc.passes.raising.raise_ import Raise

ROOTS = """
__global__ void roots(const int* __restrict__ x, int* __restrict__ y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    if (x[i] < 0) return;
    y[i] = x[i] * 3;
    return;
  }
}
void go(const int* x, int* y, int n) { roots<<<GRID, 32>>>(x, y, n); }
"""


def raised(source: str) -> Result | Refused:
    return Raise().run(load(source, name="k.cu"))


@pytest.mark.parametrize(
    ("grid", "facts"),
    [
        ("(n + 31) / 32", []),
        ("min((n + 31) / 32, 64)", ["n <= 2048_i64"]),
        ("n / 32 + 1", []),
    ],
)
def test_a_thread_for_each_iteration_is_assumed_where_the_launch_does_not_say_it(grid, facts):
    out = raised(ROOTS.replace("GRID", grid))
    assert isinstance(out, Result)
    assert [print_expr(a.expr) for a in out.kernel.assumptions] == facts
    loops = [s for s in walk(out.kernel.body) if isinstance(s, Par)]
    assert [s.var.name for s in loops] == ["i"] and not any(isinstance(s, Return) for s in walk(loops[0].body))
    assert bool([n for n in out.notes if "assumed: every thread has at most one iteration of 'i'" in n]) == bool(facts)


def test_the_loop_is_what_the_source_does():
    kernel = load(ROOTS.replace("GRID", "(n + 31) / 32"), name="k.cu")
    out = raised(ROOTS.replace("GRID", "(n + 31) / 32"))
    assert isinstance(out, Result)
    x = np.arange(70, dtype=np.int32) % 9 - 4
    given = {"x": x, "y": np.full(70, -1, np.int32), "n": 70}
    assert run(out.kernel, given).outputs["y"].tolist() == run(kernel, given).outputs["y"].tolist()


@pytest.mark.parametrize(
    ("what", "instead"),
    [
        ("i += blockDim.x * gridDim.x", "i += blockDim.x"),  # blocks share no iterations out
        ("threadIdx.x; i < n", "threadIdx.x + 1; i < n"),  # the last is a thread more away
    ],
)
def test_other_returns_are_refused_where_they_are(what, instead):
    assert what in ROOTS
    refused_at_its_place(ROOTS.replace(what, instead).replace("GRID", "(n + 31) / 32"))


@pytest.mark.parametrize("grid", ["4", "(n + 30) / 32", "min(n / 32, 64)"])
def test_a_launch_that_is_not_made_for_all_iterations_is_refused(grid):
    refused_at_its_place(ROOTS.replace("GRID", grid))


def refused_at_its_place(source: str) -> None:
    out = raised(source)
    assert isinstance(out, Refused)
    assert "'continue' would end its own" in str(out) and "k.cu:4" in str(out)


FIRST = """
__global__ void first(const float* __restrict__ x, float* __restrict__ at, float* __restrict__ y, int n, int w) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    const int from = i * w, to = from + w;
    for (int r = 0; r < 2; ++r) {
      float sum = 0.0f;
      for (int k = from; k < to; ++k) {
        sum += x[k];
        if (sum >= at[i] * (r + 1)) { y[i] = x[k] + r; return; }
      }
    }
    y[i] = -1.0f;
  }
}
void go(const float* x, float* at, float* y, int n, int w) { first<<<(n + 31) / 32, 32>>>(x, at, y, n, w); }
"""


def test_a_return_out_of_loops_inside_ends_the_one_iteration() -> None:
    kernel = load(FIRST, name="k.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result), outcome
    (loop,) = [s for s in walk(outcome.kernel.body) if isinstance(s, Par)]
    assert print_expr(loop.hi) == "n" and not any(isinstance(s, Return) for s in walk(loop.body))
    rng = np.random.default_rng(4)
    args = {"x": rng.integers(0, 9, 70 * 5), "at": rng.integers(0, 40, 70), "y": np.zeros(70), "n": 70, "w": 5}
    args = {k: v.astype(np.float32) if isinstance(v, np.ndarray) else v for k, v in args.items()}
    got, want = (run(k, args, domain="int").outputs["y"] for k in (outcome.kernel, kernel))
    np.testing.assert_array_equal(got, want)
    assert len(set(want)) > 3
