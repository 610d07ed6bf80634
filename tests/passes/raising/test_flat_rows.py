"""Tiles in flat shared arrays, of which rows are so many cells apart: the loops that they stand for."""

from __future__ import annotations

import pytest

from ktc.ir.text import print_kernel

from .raised_once import raised

PRODUCT = """
__global__ void product(const float* a, const float* b, float* c, int n, int m, int k) {
  __shared__ float s[SIZE], t[SIZE];
  int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int p = 0; p < k; p += 16) {
    s[threadIdx.y * ROW + threadIdx.x] = a[row * k + p + threadIdx.x];
    t[threadIdx.y * ROW + threadIdx.x] = b[(p + threadIdx.y) * m + col];
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += s[threadIdx.y * ROW + i] * t[i * ROW + threadIdx.x];
    __syncthreads();
  }
  c[row * m + col] = sum;
}
void go(const float* a, const float* b, float* c, int n, int m, int k) {
  product<<<dim3(m / 16, n / 16), dim3(16, 16)>>>(a, b, c, n, m, k);
}
"""
TURN = """
__global__ void turn(const unsigned* in, unsigned* out, unsigned w, unsigned h) {
  __shared__ unsigned tile[SIZE];
  unsigned x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  if (x < w && y < h) tile[threadIdx.y * ROW + threadIdx.x] = in[y * w + x];
  __syncthreads();
  x = blockIdx.y * 16 + threadIdx.x;
  y = blockIdx.x * 16 + threadIdx.y;
  if (x < h && y < w) out[y * h + x] = tile[threadIdx.x * ROW + threadIdx.y];
}
void go(const unsigned* in, unsigned* out, unsigned w, unsigned h) {
  turn<<<dim3((w + 15) / 16, (h + 15) / 16), dim3(16, 16)>>>(in, out, w, h);
}
"""


def form(source: str, row: int, old: str = "", new: str = "") -> str:
    assert old in source
    text = source.replace(old, new).replace("SIZE", str(16 * row)).replace("ROW", str(row))
    return print_kernel(raised(text)[1].kernel)


@pytest.mark.parametrize("row", [16, 17])
@pytest.mark.parametrize(("source", "loops"), [(PRODUCT, 3), (TURN, 2)])
def test_flat_tiles_stand_for_rows_of_what_they_copy(source: str, loops: int, row: int) -> None:
    found = form(source, row)
    assert ": shared" not in found and found.count("  par ") == 2 and found.count("for ") == loops - 2


def test_cells_of_another_row_are_other_elements() -> None:
    plain, other = (
        form(TURN, 17),
        form(TURN, 17, "threadIdx.x * ROW + threadIdx.y]", "threadIdx.y * ROW + threadIdx.x]"),
    )
    assert plain != other
