"""Sums and extremes of a kernel that returns early: what they start from is known where they are taken."""

from __future__ import annotations

import pytest

from ktc.ir.text import print_kernel

from .raised_once import raised

ROWS = """
__global__ void rows(const float* x, const bool* done, float* y, int n) {
  __shared__ float part[64];
  const float* row = x + blockIdx.x * n;
  int tid = threadIdx.x;
  float m(-1e30f);
  EXIT
  for (int i = tid; i < n; i += 64) m = fmaxf(row[i], m);
  part[tid] = m;
  __syncthreads();
  for (int k = 32; k > 0; k >>= 1) { if (tid < k) part[tid] = fmaxf(part[tid], part[tid + k]); __syncthreads(); }
  if (tid == 0) y[blockIdx.x] = part[0];
}
void launch(const float* x, const bool* done, float* y, int blocks, int n) { rows<<<blocks, 64>>>(x, done, y, n); }
"""


@pytest.mark.parametrize("leave", ["if (done[blockIdx.x]) return;", "if (done != nullptr && done[blockIdx.x]) return;"])
def test_an_early_return_between_a_start_and_its_loop(leave: str) -> None:
    found = print_kernel(raised(ROWS.replace("EXIT", leave))[1].kernel)
    assert "reduce(max)" in found and "over i in 0..n @ [thread.x 64, seq]" in found


def test_a_start_that_the_condition_reads_or_that_is_used_after_it_stays_in_front() -> None:
    text = ROWS.replace("EXIT", "if (done[blockIdx.x]) { if (tid == 0) y[blockIdx.x] = m; return; }")
    assert "y[block_x] = m" in print_kernel(raised(text)[1].kernel)
