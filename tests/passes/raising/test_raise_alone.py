"""Kernels of which one thread does everything: the one block's work, that its threads may share."""

from __future__ import annotations

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
