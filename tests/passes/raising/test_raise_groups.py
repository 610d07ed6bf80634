"""Elements of a row of threads that shuffles bring together in groups, where nothing else speaks of lanes."""

from __future__ import annotations

import pytest

from ktc.ir.nodes import Reduce, WarpOp
from ktc.ir.text import print_kernel
from ktc.ir.walk import all_exprs, walk
from ktc.passes.raising.check.exact_check import Reference
from tests.passes.raising.raised_once import raised

SCALED = """
__global__ void scaled(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float own = i < n ? x[i] : 0.0f;
  float most = fabsf(own);
  SHUFFLES
  if (i < n) y[i] = own / most;
}
void run(const float* x, float* y, int n) { scaled<<<(n + 127) / 128, 128>>>(x, y, n); }
"""

UP = "for (int d = 1; d < {n}; d *= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, d));"
DOWN = "for (int d = {n} / 2; d > 0; d /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, d));"


@pytest.mark.parametrize(("loop", "lanes"), [(UP, 32), (DOWN, 32), (DOWN, 16), (UP, 8)])
def test_lanes_that_shuffles_bring_together_are_a_group(loop: str, lanes: int) -> None:
    kernel, outcome = raised(SCALED.replace("SHUFFLES", loop.format(n=lanes)))
    text = print_kernel(outcome.kernel)
    (found,) = (s for s in walk(outcome.kernel.body) if isinstance(s, Reduce))
    assert f"in 0..{lanes} @ [thread.x {lanes}]" in text and found.accs[0].op == "max", text
    assert not any(isinstance(e, WarpOp) for e in all_exprs(outcome.kernel.body)), text
    assert Reference(kernel, instances=6, seed=37).differs(outcome.kernel, given=outcome.kernel.assumptions) == ""
