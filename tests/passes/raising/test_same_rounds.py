"""Loops that begin and end at a place of the thread: counted from zero, and the block goes round them together."""

from __future__ import annotations

import pytest

from ktc.ir.text import print_kernel

from .raised_once import raised

RECURRENCE = """
__global__ void walk(const float* x, float* y, int T) {
  __shared__ float s[64];
  const int first = blockIdx.x * T * 64 + threadIdx.x;
  const int last = first + (T - 1) * 64, end = first + T * 64;
  float sum = 0;
  LOOP {
    __syncthreads();
    s[threadIdx.x] = x[t];
    __syncthreads();
    sum = sum * 0.5f + s[63 - threadIdx.x];
    y[t] = sum;
  }
}
void launch(const float* x, float* y, int rows, int T) { walk<<<rows, 64>>>(x, y, T); }
"""


@pytest.mark.parametrize(
    ("loop", "place"),
    [
        ("for (int t = first; t < end; t += 64)", "first + t_1"),
        ("for (int t = last; t >= first; t -= 64)", "last - t_1"),
        ("for (int t = first; last >= t; t += 64)", "first + t_1"),
    ],
)
def test_a_block_walks_along_a_sequence(loop: str, place: str) -> None:
    found = print_kernel(raised(RECURRENCE.replace("LOOP", loop))[1].kernel)
    assert f"let t: i32 = {place}" in found and "step 64" in found and "for t_1 in 0.." in found


TILED = """
__global__ void product(float* c, const float* a, const float* b, int wa, int wb) {
  __shared__ float as[8][8], bs[8][8];
  int tx = threadIdx.x, ty = threadIdx.y;
  int first = wa * 8 * blockIdx.y, last = END;
  float sum = 0;
  for (int i = first, j = 8 * blockIdx.x; i <= last; i += 8, j += 8 * wb) {
    as[ty][tx] = a[i + wa * ty + tx];
    bs[ty][tx] = b[j + wb * ty + tx];
    __syncthreads();
    for (int k = 0; k < 8; ++k) sum += as[ty][k] * bs[k][tx];
    __syncthreads();
  }
  c[wb * 8 * blockIdx.y + 8 * blockIdx.x + wb * ty + tx] = sum;
}
void launch(float* c, const float* a, const float* b, int m, int wa, int wb) {
  product<<<dim3(wb / 8, m / 8), dim3(8, 8)>>>(c, a, b, wa, wb);
}
"""


def test_a_product_walks_along_a_row_of_tiles() -> None:
    found = print_kernel(raised(TILED.replace("END", "first + wa - 1"))[1].kernel)
    assert "for k in 0..cdiv(wa, 8) * 8" in found and "array " not in found
    assert found.count("par ") == 2 and "@ [thread.y 8, block.y]" in found and "@ [thread.x 8, block.x]" in found


def test_rows_of_other_lengths_begin_where_they_are() -> None:
    """Each row of tiles is one tile longer than that before."""
    found = print_kernel(raised(TILED.replace("END", "first + 8 * blockIdx.y"))[1].kernel)
    assert "for i = first; i <= last; i + 8" in found and "[block.y]" in found
