"""Grids of several axes that a source numbers through."""

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
    assert not reference.differs(outcome.kernel)
    assert not reference.differs(materialise(outcome.kernel))
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
    threads = "blocks_for_n_x * blocks_for_n_y" + (" * blocks_for_n_z" if "blockIdx.z" in index else "")
    assert loops(raised(flat(index, axes))) == [f"i in 0..min(n, 64 * ({threads}))"]


def test_places_that_variables_name_are_joined():
    named = flat("(by * gridDim.x + bx) * blockDim.x + threadIdx.x", "dim3(grid.x, grid.y)")
    named = named.replace("int i =", "int bx = blockIdx.x, by = blockIdx.y; int i =")
    assert loops(raised(named)) == ["i in 0..min(n, 64 * (blocks_for_n_x * blocks_for_n_y))"]


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
