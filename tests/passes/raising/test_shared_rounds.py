"""Loops of all threads over more iterations than there are threads, which fill private arrays in each of them."""

from __future__ import annotations

import pytest

from ktc.ir.text import print_kernel
from tests.passes.raising.raised_once import raised

PATHS = """
__global__ void paths(float* out, const float* x, int n) {
  const int tid = blockIdx.x * blockDim.x + threadIdx.x;
  float z[4];
  for (int p = tid; p < n; p += blockDim.x * gridDim.x) {
    FILL
    float s = 0;
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j <= i; ++j) s += z[j] * z[i - j];
      z[i] = s;
    }
    out[p] = s;
  }
}
void host(float* out, const float* x, int n) { paths<<<3, 32>>>(out, x, n); }
"""

ALL = "for (int i = 0; i < 4; ++i) z[i] = x[p * 4 + i];"


def test_an_array_that_each_iteration_fills_is_one_of_each() -> None:
    text = print_kernel(raised(PATHS.replace("FILL", ALL))[1].kernel)
    assert "par p in 0..n @ [thread.x 32, block.x 3, seq]" in text, text


@pytest.mark.parametrize(
    "fill",
    [
        "if (p < 96) { " + ALL + " }",
        "for (int i = 0; i < (p < 96 ? 4 : 2); ++i) z[i] = x[p * 4 + i];",
        "for (int i = 0; i < 4; ++i) z[i] = p < 96 ? x[i] : z[i];",
    ],
    ids=["under-a-condition", "of-some-length", "with-what-was-there"],
)
def test_an_array_that_later_iterations_find_filled_is_the_threads(fill: str) -> None:
    text = print_kernel(raised(PATHS.replace("FILL", fill))[1].kernel)
    assert "par p in" not in text and "for p = " in text, text
