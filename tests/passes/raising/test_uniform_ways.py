"""Rows that a flag of the launch says what to do with: a loop for each way, each with its own reductions."""

from __future__ import annotations

import pytest

from ktc.ir.nodes import Alloc
from ktc.ir.text import print_kernel
from ktc.ir.walk import walk
from ktc.passes.raising.check.exact_check import Reference

from .raised_once import outcome_of, raised

ROWS = """
__global__ void rows(const float* __restrict__ x, float* __restrict__ y, float* __restrict__ largest, int n,
                     bool scaled, bool twice) {
  __shared__ float parts[2];
  __shared__ float mean;
  int tid = threadIdx.x;
  float sum = 0.0f;
  for (int i = tid; i < n; i += 64) sum += x[blockIdx.x * n + i];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
  if (tid % 32 == 0) parts[tid / 32] = sum;
  __syncthreads();
  float total = parts[0] + parts[1];
  if (tid == 0) {
    total = total / n;
    mean = total;
  }
  __syncthreads();
  float most = START;
  for (int i = tid; i < n; i += 64) {
    float v = x[blockIdx.x * n + i] - mean;
    if (scaled) {
      float a = fabsf(v);
      most = a > most ? a : most;
    } else if (twice) y[blockIdx.x * n + i] = v + v;
    else y[blockIdx.x * n + i] = v;
  }
  if (scaled) {
    for (int o = 16; o > 0; o /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
    if (tid % 32 == 0) parts[tid / 32] = most;
    __syncthreads();
    most = fmaxf(parts[0], parts[1]);
    for (int i = tid; i < n; i += 64) y[blockIdx.x * n + i] = (x[blockIdx.x * n + i] - mean) / most;
    if (tid == 0) largest[blockIdx.x] = most;
  }
  AFTER
}
void run(const float* x, float* y, float* largest, int rows_, int n, bool scaled, bool twice) {
  rows<<<rows_, 64>>>(x, y, largest, n, scaled, twice);
}
"""
ONE_WAY = ROWS.replace("AFTER", "")


@pytest.mark.parametrize("start", ["0.0f", "1e-6f"])
def test_each_way_is_a_loop_and_a_value_of_one_thread_is_the_blocks(start: str) -> None:
    kernel, outcome = raised(ONE_WAY.replace("START", start))
    found = print_kernel(outcome.kernel)
    assert found.count("if scaled") == 1 and "reduce(max) most" in found and "reduce(+) sum" in found, found
    assert found.count("0..n @ [thread.x 64, seq]") == 4 and " for " not in found, found
    assert not any(isinstance(s, Alloc) for s in walk(outcome.kernel.body)), found
    assert Reference(kernel, instances=5, seed=21).differs(outcome.kernel) == ""


@pytest.mark.parametrize(
    "old, new",
    [
        ("AFTER", "if (tid == 0) largest[blockIdx.x] += most;"),  # what it started from, where nothing was scaled
        ("AFTER", "if (tid < 3) largest[blockIdx.x] = total;"),  # one of the threads went on with another
        ("if (scaled) {\n    for", "if (twice) {\n    for"),
        ("float v = x[blockIdx.x * n + i] - mean;", "float v = x[blockIdx.x * n + i] - mean; scaled = v > 0.0f;"),
    ],
    ids=["used-after", "one-thread-goes-on", "other-condition", "changing-condition"],
)
def test_other_ways_keep_their_meaning(old: str, new: str) -> None:
    assert old in ROWS
    kernel, outcome = outcome_of(ROWS.replace(old, new).replace("AFTER", "").replace("START", "0.0f"))
    if (found := getattr(outcome, "kernel", None)) is not None:
        assert Reference(kernel, instances=5, seed=21).differs(found) == ""
