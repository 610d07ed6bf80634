"""Kernels of which one thread does everything: the one block's work, that its threads may share."""

from __future__ import annotations

import pytest

from ktc.ir.text import print_kernel
from tests.passes.checks import differs
from tests.passes.raising.raised_once import raised

LENGTH = """
__global__ void length(const float* __restrict__ x, float* __restrict__ y, int n, int step) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t == 0) {
    float sum = 0.0f;
    for (int i = 0; i < n; i++) sum += x[i * step] * x[i * step];
    y[step] = sum;
  }
}
void launch(const float* x, float* y, int n, int step) { length<<<1, 128>>>(x, y, n, step); }
"""


def test_what_one_thread_does_is_the_blocks() -> None:
    source, result = raised(LENGTH)
    assert "par block_x in 0..1 @ [block.x]" in print_kernel(result.kernel)
    sizes = [{"n": n, "step": c} for n, c in ((1, 1), (5, 3), (40, 2))]
    assert differs(source, result.kernel, sizes) is None


SOFTMAX = """
__global__ void softmax(const float* __restrict__ x, float* __restrict__ y, int n) {
  extern __shared__ float row[];
  __shared__ float total;
  for (int j = threadIdx.x; j < n; j += blockDim.x) row[j] = x[blockIdx.x * n + j];
  __syncthreads();
  if (threadIdx.x == 0) {
    float m = row[0], sum = 0;
    for (int j = 1; j < n; j++) m = fmaxf(m, row[j]);
    for (int j = 0; j < n; j++) { %s }
    total = sum;
  }
  __syncthreads();
  for (int j = threadIdx.x; j < n; j += blockDim.x) y[blockIdx.x * n + j] = row[j] / total;
}
void launch(const float* x, float* y, int rows, int n) { softmax<<<rows, 64, n * sizeof(float)>>>(x, y, n); }
"""


@pytest.mark.parametrize(
    "loop",
    [
        "row[j] = expf(row[j] - m); sum += row[j];",
        "float e = expf(row[j] - m); row[j] = e; sum += e;",
        "float e = expf(row[j] - m); sum += e; row[j] = e;",
    ],
)
def test_what_one_thread_stores_and_adds_up_is_a_loop_for_each(loop: str) -> None:
    """``row`` has as many elements as a size says that may be negative in what is tried: nothing is in it then."""
    source, result = raised(SOFTMAX % loop)
    text = print_kernel(result.kernel)
    assert "par block_x in 0..rows @ [block.x]" in text and text.count("for j") == 3
    assert differs(source, result.kernel, [{"n": n, "rows": 2} for n in (1, 5, 70)]) is None
