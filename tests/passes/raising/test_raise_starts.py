"""What a thread's accumulator starts from is part of the result, and the exact check can see when it is lost."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ktc.ir.analysis.accumulators import identity
from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Reduce, Stmt
from ktc.ir.text import print_kernel
from ktc.ir.walk import map_body, walk
from ktc.passes.core.base import Result
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.raise_ import Raise

SOURCE = """
__global__ void extreme(const float* x, const float* base, float* y, int d) {
  __shared__ float s[64];
  int row = blockIdx.x;
  int t = threadIdx.x;
  float best = START;
  for (int i = t; i < d; i += 64) best = OP(best, x[row * d + i]);
  s[t] = best;
  __syncthreads();
  for (int w = 32; w > 0; w >>= 1) {
    if (t < w) s[t] = OP(s[t], s[t + w]);
    __syncthreads();
  }
  if (t == 0) y[row] = s[0];
}
void launch(const float* x, const float* base, float* y, int rows, int d) { extreme<<<rows, 64>>>(x, base, y, d); }
"""


def source(start: str, op: str) -> Kernel:
    return load(SOURCE.replace("START", start).replace("OP", op), name="source.cu")


def arguments(kernel: Kernel, value: float) -> dict:
    args = dict(Reference(kernel).sets[0])
    full = np.full(args["x"].shape, value, args["x"].dtype)
    return {**args, "x": full}


@pytest.mark.parametrize(
    "start, op, value",
    [
        ("-100.0f", "fmaxf", -250.0),
        ("3.0f", "fmaxf", 1.0),
        ("70.0f", "fminf", 90.0),
        ("base[row]", "fmaxf", -9.0),
        ("base[t]", "fmaxf", -9.0),
    ],
)
def test_the_start_of_every_thread_is_kept(start: str, op: str, value: float) -> None:
    kernel = source(start, op)
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result), outcome
    args = arguments(kernel, value)
    want = run(kernel, args, domain="float").outputs["y"]
    for form in (outcome.kernel, materialise(outcome.kernel)):
        np.testing.assert_array_equal(run(form, args, domain="float").outputs["y"], want, print_kernel(form))


@pytest.mark.parametrize("start, op", [("-100.0f", "fmaxf"), ("70.0f", "fminf")])
def test_the_check_sees_a_lost_start(start: str, op: str) -> None:
    kernel = source(start, op)
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result), outcome

    def lost(s: Stmt) -> Stmt:
        if not isinstance(s, Reduce):
            return s
        accs = tuple(dataclasses.replace(a, init=identity(a.op, a.sym.type)) for a in s.accs)  # type: ignore[arg-type]
        return dataclasses.replace(s, accs=accs)

    wrong = outcome.kernel.with_(body=map_body(outcome.kernel.body, lost))
    assert any(isinstance(s, Reduce) for s in walk(wrong.body))
    assert "y[" in Reference(kernel).differs(wrong, ("int",))


def test_a_guess_that_cannot_be_run_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    from ktc.passes.raising.check import work_budget as check

    kernel = source("-100.0f", "fmaxf")
    reference = Reference(kernel)

    def ill_typed(*args: object, **kwargs: object) -> None:
        raise ValueError("operands could not be broadcast together")

    assert reference.differs(kernel) == ""
    monkeypatch.setattr(check, "run", ill_typed)
    assert "cannot be run" in reference.differs(kernel)
