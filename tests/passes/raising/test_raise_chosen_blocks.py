"""Blocks whose shape the host chooses among a few, by the sizes."""

from __future__ import annotations

import pytest

from ktc.ir.frontend import load
from ktc.ir.text import print_kernel
from ktc.passes.core.refusals import Result
from ktc.passes.raising.raise_ import Raise

COLUMN_SUMS = """
__global__ void column_sums(const float* x, float* y, int rows, int cols) {
  extern __shared__ float part[];
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = threadIdx.y;
  float sum = 0.f;
  if (c < cols)
    for (int i = r; i < rows; i += blockDim.y) sum += x[i * cols + c];
  part[r * blockDim.x + threadIdx.x] = sum;
  __syncthreads();
  for (int s = blockDim.y / 2; s > 0; s /= 2) {
    if (r < s) part[r * blockDim.x + threadIdx.x] += part[(r + s) * blockDim.x + threadIdx.x];
    __syncthreads();
  }
  if (r == 0 && c < cols) y[c] = part[threadIdx.x];
}
void go(const float* x, float* y, int rows, int cols) {
  %s
  column_sums<<<(cols + w - 1) / w, dim3(w, 128 / w), 512>>>(x, y, rows, cols);
}
"""


def raised(source: str) -> str:
    outcome = Raise().run(load(source, name="k.cu"))
    assert isinstance(outcome, Result)
    return print_kernel(outcome.kernel)


@pytest.mark.parametrize(
    "width",
    [
        "int w = 1; while (w < 32 && w < cols / 2) w *= 2;",
        "int w = cols > 16 ? 32 : 8;",
    ],
)
def test_sums_by_any_number_of_threads_are_loops(width: str) -> None:
    text = raised(COLUMN_SUMS % width)
    assert "reduce(+)" in text and "array" not in text


def test_what_hangs_on_the_shape_is_not_raised_for_another() -> None:
    source = (COLUMN_SUMS % "int w = cols > 16 ? 32 : 8;").replace("y[c] = part[", "y[c] = blockDim.y * part[")
    assert "128 / (cols > 16 ? 32 : 8)" in raised(source).partition("reduce(+)")[2]
