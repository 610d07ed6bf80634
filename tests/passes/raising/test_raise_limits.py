"""A number that a maximum does not go below is part of it, however far it is from the integers of the check."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Reduce
from ktc.ir.text import print_kernel
from ktc.ir.walk import walk
from ktc.passes.core.base import Result
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.raise_ import Raise

TREE = """
__global__ void extreme(const float* x, float* y, int d) {
  __shared__ float s[64];
  int t = threadIdx.x;
  float best = -INFINITY;
  for (int i = t; i < d; i += 64) best = fmaxf(best, x[blockIdx.x * d + i]);
  s[t] = best;
  __syncthreads();
  for (int w = 32; w > 0; w >>= 1) {
    if (t < w) s[t] = fmaxf(s[t], s[t + w]);
    __syncthreads();
  }
  best = fmaxf(s[0], LIMIT);
  if (t == 0) y[blockIdx.x] = best;
}
void launch(const float* x, float* y, int rows, int d) { extreme<<<rows, 64>>>(x, y, d); }
"""
WARPS = """
__global__ void parts(const float* x, float* y, float* z, int d) {
  __shared__ float s[2], u[2];
  int t = threadIdx.x, lane = t % 32;
  float best = -INFINITY, sum = 0.f;
  for (int i = t; i < d; i += 64) { float v = x[blockIdx.x * d + i]; best = fmaxf(best, v); sum += v; }
  for (int o = 16; o > 0; o >>= 1) {
    best = fmaxf(best, __shfl_xor_sync(0xffffffff, best, o));
    sum += __shfl_xor_sync(0xffffffff, sum, o);
  }
  if (lane == 0) { s[t / 32] = best; u[t / 32] = sum; }
  __syncthreads();
  best = lane < 2 ? s[lane] : LIMIT;
  sum = lane < 2 ? u[lane] : 0.f;
  for (int o = 16; o > 0; o >>= 1) {
    best = fmaxf(best, __shfl_xor_sync(0xffffffff, best, o));
    sum += __shfl_xor_sync(0xffffffff, sum, o);
  }
  if (t == 0) { y[blockIdx.x] = best; z[blockIdx.x] = sum; }
}
void launch(const float* x, float* y, float* z, int rows, int d) { parts<<<rows, 64>>>(x, y, z, d); }
"""


def raised(source: str, limit: str) -> tuple[Kernel, Kernel]:
    kernel = load(source.replace("LIMIT", limit), name="source.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result), outcome
    assert any(isinstance(s, Reduce) for s in walk(outcome.kernel.body)), "its threads are loops still"
    return kernel, outcome.kernel


@pytest.mark.parametrize("source", [TREE, WARPS], ids=["tree", "warps"])
@pytest.mark.parametrize(("limit", "value"), [("-3e9f", -7e9), ("-1e30f", -2e30), ("-FLT_MAX", -np.inf)])
def test_a_maximum_goes_no_lower_than_it_did(source: str, limit: str, value: float) -> None:
    kernel, form = raised("#include <float.h>\n" + source, limit)
    args = dict(Reference(kernel).sets[0])
    args["x"] = np.full(args["x"].shape, value, args["x"].dtype)
    want = run(kernel, args, domain="float").outputs["y"]
    for made in (form, materialise(form)):
        np.testing.assert_array_equal(run(made, args, domain="float").outputs["y"], want, print_kernel(made))


def test_the_check_sees_a_lost_limit_that_integers_do_not_reach() -> None:
    kernel, form = raised(TREE, "-1e30f")
    other = raised(TREE, "-2e30f")[1]
    reference = Reference(kernel)
    assert not reference.differs_beyond(form) and not reference.differs(other)
    assert "y[0] is -2" in reference.differs_beyond(other)
