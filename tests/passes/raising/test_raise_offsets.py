"""raise: threads that begin behind a border are loops over what lies inside it."""

from __future__ import annotations

from ktc.ir.frontend.entry_points import load
from ktc.ir.text import print_kernel
from ktc.passes.core.base import Result
from ktc.passes.raising.raise_ import Raise

LAPLACE = """
__global__ void lap(const float* __restrict__ u, float* __restrict__ v, int nx, int ny) {
  int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1;
  if (x < nx - 1 && y < ny - 1) v[y * nx + x] = u[y * nx + x - 1] + u[y * nx + x + 1] + u[(y - 1) * nx + x];
}
void go(const float* u, float* v, int nx, int ny) {
  lap<<<dim3((nx + 31) / 32, (ny + 7) / 8), dim3(32, 8)>>>(u, v, nx, ny);
}
"""


def listing(source: str) -> str:
    outcome = Raise().run(load(source, name="source.cu"))
    assert isinstance(outcome, Result), outcome
    return print_kernel(outcome.kernel)


def test_threads_that_begin_inside_the_border_are_a_loop_over_the_interior() -> None:
    """The guard of ``x = thread + 1`` stayed inside a loop over all threads of the grid: nothing could tile that."""
    text = listing(LAPLACE)
    assert "par y in 1..ny - 1 @ [thread.y 8, block.y]" in text
    assert "par x in 1..nx - 1 @ [thread.x 32, block.x]" in text and "if " not in text


def test_a_grid_that_stops_before_the_guard_keeps_its_own_end() -> None:
    """Threads that are not launched do nothing, whatever the guard would let through."""
    text = listing(LAPLACE.replace("(nx + 31) / 32", "(nx - 9) / 32"))
    assert "nx - 1 @" not in text and "ny - 1 @" in text
