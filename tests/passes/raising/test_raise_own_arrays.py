"""Arrays that each thread has one of and all of them fill alike: extents of a tensor, of any number of dimensions."""

from __future__ import annotations

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.text import print_kernel
from ktc.passes.core.base import Result
from ktc.passes.raising.raise_ import Raise

SOURCE = """
struct Extents { int of[3]; int dims; };
__global__ void k(const float* x, float* y, const Extents extents, int rows, int columns) {
  const int last = extents.of[extents.dims - 1];
  const int row = blockIdx.x * blockDim.y + threadIdx.y;
  const int column = blockIdx.y * blockDim.x + threadIdx.x;
  if (row < rows && column < columns) {
    float v = x[row * columns + column];
    for (int i = 1; i < 4; i++) { if (row + i >= LIMIT) break; v += x[(row + i) * columns + column]; }
    y[row * columns + column] = v;
  }
}
void f(const float* x, float* y, Extents extents, int rows, int columns) {
  k<<<dim3((rows + 7) / 8, (columns + 31) / 32), dim3(32, 8)>>>(x, y, extents, rows, columns);
}
"""


@pytest.mark.parametrize("limit", ["last", "last + extents.of[1]"])
def test_what_is_read_of_them_is_each_threads_own(limit: str) -> None:
    outcome = Raise().run(load(SOURCE.replace("LIMIT", limit), name="source.cu"))
    assert isinstance(outcome, Result), outcome
    raised = print_kernel(outcome.kernel)
    assert raised.count("par ") == 2 and raised.index("array") > raised.rindex("par ")
