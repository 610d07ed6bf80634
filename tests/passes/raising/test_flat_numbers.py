"""Threads of two axes numbered in one, of which only the digits are asked for: the axes themselves."""

from __future__ import annotations

import pytest

from ktc.ir.nodes import Alloc
from ktc.ir.text import print_kernel
from ktc.ir.walk import walk
from ktc.passes.raising.check.exact_check import Reference

from .raised_once import raised

TILED = """
__global__ void product(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n,
                        int k) {
  __shared__ float as[8][8], bs[8][8];
  const int tid = threadIdx.y * blockDim.x + threadIdx.x;
  const int y = ROW, x = COLUMN;
  const int row = blockIdx.y * 8 + y, col = blockIdx.x * 8 + x;
  float sum = 0.0f;
  for (int t = 0; t < (k + 7) / 8; ++t) {
    as[y][x] = row < m && t * 8 + x < k ? a[row * k + t * 8 + x] : 0.0f;
    bs[y][x] = col < n && t * 8 + y < k ? b[(t * 8 + y) * n + col] : 0.0f;
    __syncthreads();
    for (int i = 0; i < 8; ++i) sum += as[y][i] * bs[i][x];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
}
void run(const float* a, const float* b, float* c, int m, int n, int k) {
  product<<<dim3((n + 7) / 8, (m + 7) / 8), dim3(8, 8)>>>(a, b, c, m, n, k);
}
"""


@pytest.mark.parametrize("row, column", [("tid / 8", "tid % 8"), ("tid >> 3", "tid & 7")])
def test_a_tile_s_rows_and_columns_are_those_of_the_result(row: str, column: str) -> None:
    kernel, outcome = raised(TILED.replace("ROW", row).replace("COLUMN", column))
    body, text = outcome.kernel.body, print_kernel(outcome.kernel)
    assert "0..m @ [thread.y 8, block.y]" in text
    assert "0..n @ [thread.x 8, block.x]" in text and "0..k" in text
    assert not any(isinstance(s, Alloc) for s in walk(body))
    assert not Reference(kernel).differs(outcome.kernel)


def test_other_digits_keep_the_number() -> None:
    kernel, outcome = raised(TILED.replace("ROW", "tid / 16 * 2 + tid % 16 / 8").replace("COLUMN", "tid % 8"))
    assert not Reference(kernel).differs(outcome.kernel)
