"""Launches of more threads than the check runs, whatever the sizes are: what a source does in grids of any size."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.nodes import Par
from ktc.ir.text import print_kernel
from ktc.ir.walk import walk
from ktc.passes.core.base import Refused, Result
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.check.huge_launches import of_any_grid
from ktc.passes.raising.check.small_launches import MAX_FIXED
from ktc.passes.raising.raise_ import Raise

PLANE = """
#define N 2048
__global__ void smooth(const double* __restrict__ c, double* __restrict__ m, double w) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x > 0 && y > 0 && x < N - 3 && y < N - 3) {
    int i = y * N + x;
    m[i] = (c[i + 1] + c[i - 1] + c[i + N] + c[i - N] - 4 * c[i]) * w;
  }
}
void go(const double* c, double* m, double w) {
  dim3 block(32, 4), grid(N / 32, N / 4);
  smooth<<<grid, block>>>(c, m, w);
}
"""

STRIDES = """
__global__ void scale(float* __restrict__ x, long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
    x[i] *= 3.f;
}
void go(float* x, long long n) { scale<<<65536, 128>>>(x, n); }
"""


def raised(source: str) -> Result | Refused:
    return Raise().run(load(source, name="source.cu"))


def test_a_grid_of_constant_size_is_one_of_any() -> None:
    kernel = load(PLANE, name="source.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result), outcome
    assert any("grid of 32,768 blocks does what smaller ones do" in n for n in outcome.notes), outcome.notes
    form = outcome.kernel
    assert form.params == kernel.params and form.launch == kernel.launch
    assert [s.var.name for s in walk(form.body) if isinstance(s, Par)] == ["y", "x"]
    assert "2048" in print_kernel(form) and "blocks" not in print_kernel(form)
    assert [print_kernel(materialise(form)).count(e) for e in ("grid(64, 512)", "block(32, 4)")] == [1, 1]


def test_what_the_check_runs_lies_in_its_buffers() -> None:
    """Rows of 2048 lie beyond what other kernels need at small sizes; one axis is run whole, so its guard fails."""
    general = of_any_grid(load(PLANE, name="source.cu"))
    assert general is not None
    reference = Reference(general[0])
    assert reference.sets and not reference.never_run
    assert all(run(general[0], a, domain="int").ok for a in reference.sets)
    assert any(a["blocks_x"] == 64 for a in reference.sets)


def test_strides_over_such_a_grid() -> None:
    outcome = raised(STRIDES)
    assert isinstance(outcome, Result), outcome
    (loop,) = [s for s in walk(outcome.kernel.body) if isinstance(s, Par)]
    assert [lv.kind for lv in loop.dist] == ["thread", "block", "seq"]
    lowered = print_kernel(materialise(outcome.kernel))
    assert "grid(65536)" in lowered and "blocks" not in lowered
    small = STRIDES.replace("65536", "20")  # the same form, in a grid that can be run
    form, n = raised(small), 9000
    assert isinstance(form, Result)
    assert print_kernel(form.kernel).replace("20", "65536") == print_kernel(outcome.kernel)
    x = np.arange(n, dtype=np.float32)
    assert (run(materialise(form.kernel), {"x": x, "n": n}, domain="int").outputs["x"] == 3 * x).all()


def test_what_only_far_blocks_do_is_not_compared() -> None:
    outcome = raised(
        PLANE.replace("int i = y * N + x;", "int i = y * N + x; if (blockIdx.x * blockIdx.y > 9999) return;")
    )
    assert isinstance(outcome, Refused) or any("unchecked" in n for n in outcome.notes)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("m[i] =", "m[i / 2] ="),  # neighbours write one element
        ("c[i - 1]", "m[i - 1]"),  # and one reads what the other writes
    ],
)
def test_races_in_such_a_grid_are_no_loops(old: str, new: str) -> None:
    assert PLANE.count(old) == 1
    outcome = raised(PLANE.replace(old, new))
    assert isinstance(outcome, Refused), outcome.notes


def test_grids_that_are_run_as_they_are() -> None:
    assert of_any_grid(load(PLANE.replace("2048", "256"), name="source.cu")) is None
    assert 256 * 256 <= MAX_FIXED < 2048 * 2048
    open_ = PLANE.replace("void go(", "void go(int rows, ").replace("N / 4)", "rows)")
    assert of_any_grid(load(open_, name="source.cu")) is None
