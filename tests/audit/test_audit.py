"""The audit itself: it passes what is right and sees a loop that does more, less or something else."""

from __future__ import annotations

import pytest
from ktc.ir.frontend.api import load
from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.base import Result
from ktc.passes.raise_ import Raise

from .compare import audit

SOURCE = """
__global__ void scale(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i] + 1;
}
void launch(const float* x, float* y, int n) { scale<<<(n + 127) / 128, 128>>>(x, y, n); }
"""


@pytest.mark.parametrize(
    "old, new", [("", ""), ("0..n", "1..n"), ("0..n", "0..n + 1"), ("x[i]", "x[i / 2 * 2]"), ("2.0 *", "3.0 *")]
)
def test_sees_a_seeded_difference(old: str, new: str) -> None:
    source = load(SOURCE, name="source.cu")
    outcome = Raise().apply(source, {})
    assert isinstance(outcome, Result)
    text = print_kernel(outcome.kernel)
    assert old in text, text
    verdict = audit(source, parse_kernel(text.replace(old, new, 1)), count=6, seed=3, seconds=20)
    assert (verdict.wrong == "") == (old == new), verdict
    assert verdict.clean


TREE = """
__global__ void total(const int* x, int* y) {
  extern __shared__ int part[];
  part[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s /= 2) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
void launch(const int* x, int* y, int n, int threads) { total<<<n, threads, threads * sizeof(int)>>>(x, y); }
"""


def test_holds_a_kernel_to_what_the_launcher_takes_it_for() -> None:
    source = load(TREE, name="source.cu")
    outcome = Raise().apply(source, {})
    assert isinstance(outcome, Result) and outcome.kernel.assumptions
    assert audit(source, outcome.kernel, count=12, seed=3, seconds=20).wrong == ""
    assert audit(source, outcome.kernel.with_(assumptions=()), count=12, seed=3, seconds=20).wrong
