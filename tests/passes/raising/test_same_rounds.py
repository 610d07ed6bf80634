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
