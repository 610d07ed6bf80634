"""Variables that each iteration makes anew are the iteration's, wherever the source declares them."""

from __future__ import annotations

import pytest

from ktc.ir.text import print_kernel

from .raised_once import raised

SUMS = """
__global__ void sums(const float* x, float* y, int n) {
  __shared__ float part[64];
  const float* row = x + blockIdx.x * n;
  int tid = threadIdx.x;
  float v = START, m = -1e30f, s = 0;
  for (int i = tid; i < n; i += 64) { v = row[i]; m = fmaxf(m, v); }
  part[tid] = m;
  __syncthreads();
  for (int k = 32; k > 0; k >>= 1) { if (tid < k) part[tid] = fmaxf(part[tid], part[tid + k]); __syncthreads(); }
  float top = part[0];
  __syncthreads();
  for (int i = tid; i < n; i += 64) { AGAIN s += v; }
  part[tid] = s;
  __syncthreads();
  for (int k = 32; k > 0; k >>= 1) { if (tid < k) part[tid] += part[tid + k]; __syncthreads(); }
  if (tid == 0) y[blockIdx.x] = part[0];
}
void launch(const float* x, float* y, int rows, int n) { sums<<<rows, 64>>>(x, y, n); }
"""
WHOLE = "over i{} in 0..n @ [thread.x 64, seq]"


@pytest.mark.parametrize("start", ["-1e30f", "0"])
@pytest.mark.parametrize("again", ["v = row[i] - top;", "if (row[i] > 0) v = row[i] - top; else v = top;"])
def test_one_name_for_the_values_of_two_loops(start: str, again: str) -> None:
    found = print_kernel(raised(SUMS.replace("START", start).replace("AGAIN", again))[1].kernel)
    assert WHOLE.format("") in found and WHOLE.format("_1") in found
    assert "array v" not in found


@pytest.mark.parametrize("again", ["if (row[i] > 0) v = row[i] - top;", "v += row[i] - top;"])
def test_what_an_iteration_hands_on_is_not_its_own(again: str) -> None:
    found = print_kernel(raised(SUMS.replace("START", "0").replace("AGAIN", again))[1].kernel)
    assert WHOLE.format("_1") not in found
