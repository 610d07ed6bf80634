"""Iterations that do the same for several rows and columns are one iteration for each; others stay as they are."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.raising.lanes.rolled_copies import rolled_copies

from .raised_once import raised

ROWS = """\
kernel k(x: f32 const*, z: f32 const*, y: f32*, m: i32, n: i32)
  par i in 0..m @ [thread.x 64, block.x]
    var a: f32 = 0.0
    var b: f32 = 0.0
    for k in 0..n
      a += x[i * 2 * n + k] * z[k]
      b += x[{other} * n + k] * z[k]
    if i * 2 < m
      y[i * 2] = a
    if {place} < m
      y[{place}] = {value}
"""
PLAIN = {"other": "(i * 2 + 1)", "place": "i * 2 + 1", "value": "b"}


def text_of(kernel_text: str) -> str:
    kernel = parse_kernel(kernel_text)
    return print_kernel(kernel.with_(body=rolled_copies(kernel.body)))


def test_two_rows_are_one_each() -> None:
    text = text_of(ROWS.format(**PLAIN))
    assert "par i in 0..m * 2 @ [unroll 2, thread.x 64, block.x]" in text
    assert text.count("+=") == 1 and "x[i * n + k]" in text and "if i < m" in text


@pytest.mark.parametrize(
    "change",
    [{"other": "(i * 2 + 2)"}, {"place": "i * 2 + 2"}, {"value": "a"}, {"value": "b * 2.0"}, {"other": "(i + 1)"}],
    ids=str,
)
def test_what_differs_by_more_than_its_number_stays(change: dict[str, str]) -> None:
    text = ROWS.format(**{**PLAIN, **change})
    assert text_of(text) == print_kernel(parse_kernel(text))


TRIANGLE = """\
kernel k(y: f32*, m: i32, n: i32)
  par i in 0..m @ [block.x]
    par j in 0..i + 1 @ [thread.x 64, seq]
      y[i * 2 * n + j] = 1.0
      y[(i * 2 + 1) * n + j] = 1.0
"""


def test_rows_that_are_of_different_lengths_for_each_iteration_stay() -> None:
    assert text_of(TRIANGLE) == print_kernel(parse_kernel(TRIANGLE))


TILE = """
#define TM 4
#define TN 2
__global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
  int row = (blockIdx.y * blockDim.y + threadIdx.y) * TM, col = (blockIdx.x * blockDim.x + threadIdx.x) * TN;
  float sums[TM][TN] = {0};
  for (int t = 0; t < k; ++t)
    for (int i = 0; i < TM; ++i)
      for (int j = 0; j < TN; ++j)
        sums[i][j] += (row + i < m ? a[(row + i) * k + t] : 0.f) * (col + j < n ? b[t * n + col + j] : 0.f);
  for (int i = 0; i < TM; ++i)
    for (int j = 0; j < TN; ++j)
      if (row + i < m && col + j < n) c[(row + i) * n + col + j] = sums[i][j];
}
void launch(const float* a, const float* b, float* c, int m, int n, int k) {
  dim3 block(16, 16), grid((n + 31) / 32, (m + 63) / 64);
  product<<<grid, block>>>(a, b, c, m, n, k);
}
"""


def test_a_tile_of_registers_is_a_level_of_two_loops() -> None:
    result = raised(TILE)[1]
    text = print_kernel(result.kernel)
    assert "0..m @ [unroll 4, thread.y 16, block.y]" in text and "0..n @ [unroll 2, thread.x 16, block.x]" in text
    assert text.count("+=") == 1 and "?" not in text
