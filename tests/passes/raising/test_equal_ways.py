"""What is read from a tile, or from behind its end from the buffer that it was copied from, is read from the buffer."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel, print_body, print_kernel
from ktc.passes.raising.staging.equal_ways import without_equal_ways

from .raised_once import raised

STENCIL = """
__global__ void stencil(float* y, const float* x, const float* w, int n) {
  __shared__ float tile[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = x[i];
  __syncthreads();
  float sum = 0;
  for (int j = 0; j < 5; j++)
    if (threadIdx.x + j < 64) sum += tile[threadIdx.x + j] * w[j];
    else sum += x[BEHIND] * w[j];
  y[i] = sum;
}
void run(float* y, const float* x, const float* w, int n) { stencil<<<n / 64, 64>>>(y, x, w, n); }
"""


def test_behind_its_end_a_tile_goes_on_in_its_buffer() -> None:
    found = print_kernel(raised(STENCIL.replace("BEHIND", "i + j"))[1].kernel)
    assert "for j in 0..5\n      sum += x[i + j] * w[j]" in found and found.count("par ") == 1


@pytest.mark.parametrize("behind", ["i + j + 1", "i + 2 * j - 4", "j"])
def test_what_is_read_behind_it_is_something_else(behind: str) -> None:
    found = print_kernel(raised(STENCIL.replace("BEHIND", behind))[1].kernel)
    assert "else" in found or " ? " in found


WAYS = """
kernel k(y: f32*, x: f32*, n: i32)
  launch grid(1) block(64)
  let i: i32 = n * 2
  for t in 0..64
    if t < n
      {}
    else
      {}
"""


@pytest.mark.parametrize(
    ("first", "second", "one"),
    [
        ("y[i + t] = x[t]", "y[t + n + n] = x[t]", True),
        ("let v: f32 = x[t + i]\n      y[t] = v", "let w: f32 = x[2 * n + t]\n      y[t] = w", True),
        ("y[i + t] = x[t]", "y[t + n] = x[t]", False),
        ("y[t] = x[t]", "x[t] = y[t]", False),
        ("y[t] = x[t]", "y[t] = x[t]\n      y[0] = 1.0", False),
        ("y[t] = x[t]", "y[t] = -x[t]", False),
    ],
)
def test_ways_that_are_alike(first: str, second: str, one: bool) -> None:
    kernel = parse_kernel(WAYS.format(first, second))
    assert ("if t < n" not in print_body(without_equal_ways(kernel.body))) is one
