"""Grids of several axes that a source numbers through, and launches whose number of blocks the host computes unseen."""

from __future__ import annotations

import pytest

from ktc.ir.frontend import load
from ktc.ir.nodes import Par
from ktc.ir.text import print_expr
from ktc.ir.walk import walk
from ktc.passes.core.base import Result
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.raise_ import Raise
from ktc.passes.raising.recognise.joined_grids import with_joined_grid

FLAT = """
dim3 blocks_for(int n);
__global__ void k(float *out, const float *x, int n) {
  int i = INDEX;
  if (i >= n) return;
  out[i] = 2 * x[i];
}
void run(float *out, const float *x, int n) {
  dim3 grid = blocks_for(n);
  k<<<GRID, 64>>>(out, x, n);
}
"""

ROWS = """
__global__ void k(float *out, const float *x, int d, int rows) {
  int row = blockIdx.x + gridDim.x * blockIdx.y;
  if (row >= rows) return;
  for (int i = threadIdx.x; i < d; i += blockDim.x) out[row * d + i] = 2 * x[row * d + i];
}
void run(float *out, const float *x, int d, int rows) {
  k<<<dim3(8, (rows + 7) / 8), 64>>>(out, x, d, rows);
}
"""


def flat(index: str, grid: str = "grid") -> str:
    return FLAT.replace("INDEX", index).replace("GRID", grid)


def raised(source: str) -> Result:
    """What raising makes of ``source``, which it does not differ from on instances of its own."""
    kernel = load(source, name="k.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result), outcome
    reference = Reference(kernel, instances=6, seed=17)
    given = outcome.kernel.assumptions
    assert not reference.differs(outcome.kernel, ("int", "field"), None, given)
    assert not reference.differs(materialise(outcome.kernel), ("int", "field"), None, given)
    return outcome


def loops(outcome: Result) -> list[str]:
    return [f"{s.var.name} in {print_expr(s.lo)}..{print_expr(s.hi)}" for s in walk(outcome.kernel.body)
            if isinstance(s, Par)]  # fmt: skip


@pytest.mark.parametrize(
    "index",
    [
        "(blockIdx.x + blockIdx.y * gridDim.x) * blockDim.x + threadIdx.x",
        "(blockIdx.y + blockIdx.x * gridDim.y) * blockDim.x + threadIdx.x",
        "threadIdx.x + blockDim.x * (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z))",
    ],
)
def test_elements_numbered_through_a_grid_are_one_loop(index):
    axes = "dim3(grid.x, grid.y, grid.z)" if "blockIdx.z" in index else "dim3(grid.x, grid.y)"
    assert loops(raised(flat(index, axes))) == ["i in 0..n"]


def test_places_that_variables_name_are_joined():
    named = flat("(by * gridDim.x + bx) * blockDim.x + threadIdx.x", "dim3(grid.x, grid.y)")
    named = named.replace("int i =", "int bx = blockIdx.x, by = blockIdx.y; int i =")
    assert loops(raised(named)) == ["i in 0..n"]


def test_rows_numbered_through_a_grid_are_one_loop():
    assert [x.split()[0] for x in loops(raised(ROWS))] == ["row", "i"]


@pytest.mark.parametrize(
    "index",
    [
        "blockIdx.x * blockDim.x + threadIdx.x + blockIdx.y",  # neighbours overlap
        "(blockIdx.x + blockIdx.y * 3) * blockDim.x + threadIdx.x",  # not by the length of the axis
        "((blockIdx.x + blockIdx.y * gridDim.x) * blockDim.x + threadIdx.x) ^ blockIdx.y",
    ],
)
def test_a_grid_asked_for_otherwise_stays_as_it_is(index):
    kernel = load(flat(index, "dim3(grid.x, grid.y)"), name="k.cu")
    assert kernel.launch is not None
    same, launch = with_joined_grid(kernel, kernel.launch)
    assert same is kernel
    assert launch is kernel.launch


def test_a_launch_of_blocks_computed_unseen_is_taken_to_be_for_all_elements():
    outcome = raised(flat("blockIdx.x * blockDim.x + threadIdx.x", "grid.x"))
    assert loops(outcome) == ["i in 0..n"]
    (fact,) = outcome.kernel.assumptions
    assert fact.origin == "guessed"  # the launcher tests it
    assert print_expr(fact.expr) == "n <= blocks_for_n_x * 64_i64"
    assert any(n.startswith("assumed: the launch has a thread for each element: n <= ") for n in outcome.notes)


@pytest.mark.parametrize("grid", ["n / 64", "4"])
def test_a_launch_that_the_source_shows_is_taken_as_it_is(grid):
    outcome = raised(flat("blockIdx.x * blockDim.x + threadIdx.x", grid))
    assert not outcome.kernel.assumptions
    assert loops(outcome) != ["i in 0..n"]
