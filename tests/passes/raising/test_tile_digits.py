"""Loops over tiles and their elements that use digits of the element's number: two weights a byte."""

from __future__ import annotations

import pytest

from ktc.ir.fold import i32
from ktc.ir.nodes import For, fresh
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.types import I32
from ktc.ir.walk import walk
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.shared.joined_index import digits_over_both

from .raised_once import raised

PACKED = """
__global__ void product(const float* __restrict__ x, const unsigned char* __restrict__ w, float* __restrict__ y,
                        int rows, int cols, int n) {
  __shared__ float xs[8][8];
  __shared__ unsigned char bytes[8][4];
  __shared__ float ws[8][8];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * 8 + ty, col = blockIdx.x * 8 + tx;
  const int tiles = (n + 7) / 8;
  float sum = 0.0f;
  for (int t = 0; t < tiles; ++t) {
    const int first = t * 8;
    xs[ty][tx] = (row < rows && first + tx < n) ? x[row * n + first + tx] : 0.0f;
    if (tx < 4) {
      const int r = blockIdx.x * 8 + ty;
      bytes[ty][tx] = (r < cols && first + tx * 2 < n) ? w[r * ((n + 1) / 2) + first / 2 + tx] : 0;
    }
    __syncthreads();
    if (blockIdx.x * 8 + tx < cols && first + ty < n) {
      const unsigned char two = bytes[tx][ty / 2];
      ws[ty][tx] = (float)((ty % 2 == 0) ? (two >> 4) : (two & 15));
    }
    __syncthreads();
    if (col < cols) {
      for (int k = 0; k < 8; ++k) sum += xs[ty][k] * (first + k < n ? ws[k][tx] : 0.0f);
    }
    __syncthreads();
  }
  if (row < rows && col < cols) y[row * cols + col] = sum;
}
void run(const float* x, const unsigned char* w, float* y, int rows, int cols, int n) {
  product<<<dim3((cols + 7) / 8, (rows + 7) / 8), dim3(8, 8)>>>(x, w, y, rows, cols, n);
}
"""


def test_two_weights_a_byte_are_a_sum_over_all_terms() -> None:
    kernel, outcome = raised(PACKED)
    text = print_kernel(outcome.kernel)
    (loop,) = (s for s in walk(outcome.kernel.body) if isinstance(s, For))
    assert "for k in 0..n\n" in text and loop.var.name == "k", text
    assert "array" not in text and "w[k / 2 + col * ((n + 1) / 2)]" in text
    assert not Reference(kernel).differs(outcome.kernel)


@pytest.mark.parametrize("text, read", [
    ("x[t * 8 + k / 2]", "x[w / 2]"),
    ("x[t * 4 + (k >> 2)] * f32(k & 3)", "x[w / 4] * f32(w % 4)"),
    ("x[t * 16 + k % 8]", "x[t * 16 + w % 8]"),  # the tile's number is left
    ("x[t * 16 + k / 3]", "x[t * 16 + k / 3]"),  # no digit of both
])  # fmt: skip
def test_digits_of_an_element_are_digits_of_both(text: str, read: str) -> None:
    kernel = parse_kernel(f"kernel f(y: f32*, x: f32*, t: i32, k: i32)\n  launch grid(1) block(1)\n  y[0] = {text}\n")
    t, k = (p.sym for p in kernel.params[2:])
    w = fresh("w", I32)
    body = digits_over_both(kernel.body, k, t, i32(16), w)
    expected = parse_kernel(
        f"kernel f(y: f32*, x: f32*, t: i32, k: i32, w: i32)\n  launch grid(1) block(1)\n  y[0] = {read}\n"
    )
    assert print_kernel(kernel.with_(body=body)).splitlines()[-1] == print_kernel(expected).splitlines()[-1]
