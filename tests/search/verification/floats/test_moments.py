"""Spreads: what rounding errors are relative to where the terms of a result cancel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from ktc.backends import emit
from ktc.backends.base import Emitted
from ktc.backends.runtimes import open_runtime
from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel, bind
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.verifier import verify
from ktc.ir.workload import Workload
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from ktc.search.verification import differential
from ktc.search.verification.floats.agreement import disagreement
from ktc.search.verification.floats.moments import moments, spreads, squared
from tests.paths import KERNELS
from tests.search.verification.gate_samples import InterpretedExecutable, InterpretedRuntime

SPLIT = "raise | split-reduction{loop=tid map=[vec 4, thread.x 128, block.x 8, seq]}"
ATOMIC = f"{SPLIT} | reduce-strategy{{loop=i strategy=atomic}}"


def scripted(work: Workload, script: str) -> Kernel:
    applied = apply_script(work.load_kernel(), parse_script(script))
    assert applied.refused is None
    return materialise(bind(applied.kernel, {}))


def made(e: str) -> Kernel:
    """A kernel that stores an expression over the inputs x, y, the argument a, and the integer n."""
    return parse_kernel(f"""
kernel k(z: f32* restrict, x: f32 const* restrict, y: f32 const* restrict, a: f32, n: i32)
  launch grid(cdiv(n, 64)) block(64)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    z[i] = {e}
""")


def ran(kernel: Kernel) -> np.ndarray:
    x, y = (np.array([3.0, -2.0, 0.5], np.float32), np.array([2.0, 4.0, -8.0], np.float32))
    args = {"z": np.zeros(3, np.float32), "x": x, "y": y, "a": 3.0, "n": 3}
    assert verify(kernel) == []
    return run(kernel, squared(args)).outputs["z"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x[i] + y[i]", [13, 20, 64.25]),
        ("x[i] - y[i]", [13, 20, 64.25]),
        ("-x[i] * 2.0", [36, 16, 1]),
        ("x[i] * y[i] + a", [45, 73, 25]),
        ("fma(x[i], y[i], -1.0)", [37, 65, 17]),
        ("(x[i] - y[i]) / a", [13 / 9, 20 / 9, 64.25 / 9]),
        ("x[i] * f32(n)", [81, 36, 2.25]),
        ("i > 0 ? x[i] : -y[i]", [4, 4, 0.25]),
    ],
)
def test_second_moments(expression: str, expected: list[float]) -> None:
    np.testing.assert_allclose(ran(moments(made(expression))), expected, rtol=1e-6)


@pytest.mark.parametrize("expression", ["max(x[i], y[i])", "exp(x[i])", "x[i] > y[i] ? x[i] : y[i]", "x[i] / y[i]"])
def test_what_depends_on_values_has_none(expression: str) -> None:
    with pytest.raises(KtcError, match="E-MOMENTS"):
        moments(made(expression))


@pytest.mark.parametrize(
    ("folder", "sizes", "terms"),
    [
        ("basic/sum", {"n": 100003}, lambda a: a["x"]),
        ("basic/dot", {"n": 5000}, lambda a: a["x"].astype(np.float64) * a["y"]),
    ],
)
def test_the_spread_of_a_sum(folder: str, sizes: dict[str, int], terms: Any) -> None:
    work = Workload.load(KERNELS / folder)
    inputs = work.make_inputs(sizes, None, 1)
    found = spreads(open_runtime("numba"), emit(work.load_kernel(), "numba"), inputs, ["out"])
    assert found["out"] == pytest.approx(np.sqrt(np.sum(np.square(terms(inputs), dtype=np.float64))), rel=1e-4)


class Cancelling(Workload):
    """Inputs that add up to nothing but their rounding: each number comes back, negative, later."""

    def make_inputs(self, sizes: Mapping[str, int], *args: Any, **kwargs: Any) -> dict[str, Any]:
        inputs = super().make_inputs(sizes, *args, **kwargs)
        half = inputs["x"].size // 2
        inputs["x"][half : 2 * half] = -inputs["x"][:half][::-1]
        return inputs


def test_a_sum_that_cancels_is_judged_by_its_spread() -> None:
    runtime = open_runtime("numba")
    work = Workload.load(KERNELS / "basic/sum")
    work = Cancelling(**vars(work))
    original, candidate = work.load_kernel(), scripted(work, SPLIT)
    sizes = [{"n": 160_000}]
    good = differential(runtime, emit(original, "numba"), emit(candidate, "numba"), work, sizes=sizes)
    assert good.status == "TESTED", good
    text = print_kernel(candidate)
    assert text.count("..n step 4096") == 1
    short = parse_kernel(text.replace("..n step 4096", "..n - 4 step 4096"))
    lost = differential(runtime, emit(original, "numba"), emit(short, "numba"), work, sizes=sizes)
    assert lost.status == "REJECTED" and lost.failure is not None and lost.failure.kind == "mismatch"


class LastBit(InterpretedRuntime):
    """A device on which the roundings of the second kernel compiled differ from launch to launch."""

    compiled = launches = 0

    def compile(self, code: Emitted) -> InterpretedExecutable:
        exe = super().compile(code)
        self.compiled += 1
        return exe if self.compiled == 1 else _Restless(code.kernel, self)


class _Restless(InterpretedExecutable):
    def __init__(self, kernel: Kernel, device: LastBit) -> None:
        super().__init__(kernel)
        self.device = device

    def launch(self, args: Any) -> None:
        super().launch(args)
        self.device.launches += 1
        out = args["out"]
        rounded = out != np.rint(out)
        out[rounded] = np.nextafter(out, np.float32((-1) ** self.device.launches * 1e9))[rounded]


@pytest.mark.parametrize(
    ("folder", "script", "sizes"),
    [("basic/sum", ATOMIC, {"n": 5004}), ("basic/cumsum", "raise", {"n": 3, "d": 50})],
)
def test_only_atomic_sums_may_depend_on_the_order_of_blocks(folder: str, script: str, sizes: dict[str, int]) -> None:
    """The original's two runs agree, if by luck; a sum's second form need not, a store's must."""
    work = Workload.load(KERNELS / folder)
    a, b = (Emitted("", k.name, "none", k) for k in (work.load_kernel(), scripted(work, script)))
    verdict = differential(LastBit(), a, b, work, sizes=[sizes])
    assert (verdict.status == "TESTED") == (folder == "basic/sum"), verdict
    assert verdict.ok or "a race" in verdict.reason


def test_agreement_of_few_elements_counts_in_their_spread() -> None:
    want, got = np.array([-34.7], np.float32), np.array([-34.713], np.float32)
    assert disagreement("out", want, got)
    assert not disagreement("out", want, got, np.array([8192.0]))
    assert disagreement("out", want, want + np.float32(1), np.array([8192.0]))
    many = np.tile(want, 64)
    assert disagreement("out", many, np.tile(got, 64), np.full(64, 8192.0)), "their own rms tells"
