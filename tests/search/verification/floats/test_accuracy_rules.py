"""Error bounds that forgive another order of summation, and verdicts that do not hang on one lucky rounding."""

from __future__ import annotations

import dataclasses
import importlib

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.interp.domains.terms import STORED, TermsDomain, errors
from ktc.ir.kernel import Kernel
from ktc.search.verification import differential, verify
from ktc.search.verification.floats.accuracy import DRAWS, Excess, lost_accuracy, no_looser, outside_bound
from tests.ir.interp.interp_samples import ROWS_SHUFFLE, ROWS_TREE, kernel
from tests.search.verification.gate_samples import COPY, ROWS, InterpretedRuntime, emitted

differential_module = importlib.import_module("ktc.search.verification.device.differential")

SUM = """\
kernel sum(y: f32*, x: f32 const*, d: i32)
  launch grid(1) block(1)
  var s: f32 = 0.0
  for j = 0; j < d; j + 1
    s += x[j]
  y[0] = s
"""

LARGE_FIRST = SUM.replace("= 0.0", "= x[d - 2]").replace("s += x[j]", "if j != d - 2\n      s += x[j]")
"""The same terms, the last but one first."""

IN_HALF = SUM.replace("s += x[j]", "s = f32(f16(s + x[j]))")


def _cancelling() -> dict[str, np.ndarray | int]:
    """Small terms, then a large one that the last one takes away."""
    x = np.random.default_rng(0).uniform(0.5, 2, 1000).astype(np.float32)
    x[-2:] = 2.0**24, -(2.0**24)
    return {"y": np.zeros(1, np.float32), "x": x, "d": 1000}


def _judged(domain: str, candidate: str) -> Excess | None:
    """The candidate's result against the original's bound in one of the domains that have one."""
    args = _cancelling()
    y = run(kernel(SUM), args, domain="float64").outputs["y"]
    bound = run(kernel(SUM), args, domain=domain).outputs["y"]
    own = run(kernel(candidate), args, domain="bound").outputs["y"].imag
    e = no_looser(own, bound.imag if domain == "bound" else errors(bound), y, np.dtype(np.float32))
    return outside_bound(run(kernel(candidate), args).outputs["y"], y, e)


def test_partial_sums_of_one_order_bound_no_other() -> None:
    assert _judged("bound", LARGE_FIRST) is not None  # why the sum of |terms| is what counts
    assert _judged("terms", LARGE_FIRST) is None


def test_a_narrow_accumulator_exceeds_the_bound_of_the_terms() -> None:
    args = {"y": np.zeros(1, np.float32), "x": np.linspace(0.5, 1.5, 1000, dtype=np.float32), "d": 1000}
    y = run(kernel(SUM), args, domain="float64").outputs["y"]
    terms = run(kernel(SUM), args, domain="terms").outputs["y"]
    own = run(kernel(IN_HALF), args, domain="bound").outputs["y"].imag
    got = run(kernel(IN_HALF), args).outputs["y"]
    assert outside_bound(got, y, own) is None  # right by its own bound
    assert outside_bound(got, y, no_looser(own, errors(terms), y, np.dtype(np.float32))) is not None


def test_sizes_of_terms_do_not_depend_on_order_or_distribution() -> None:
    args = {"y": np.zeros(1, np.float32), "x": np.float32([3, -5, 2]), "d": 3}

    def size(expr: str) -> float:
        text = f"kernel k(y: f32*, x: f32 const*, d: i32)\n  launch grid(1) block(1)\n  y[0] = {expr}\n"
        return float(run(kernel(text), args, domain="terms").outputs["y"]["size"][0])

    assert size("(x[0] + x[1]) * x[2]") == size("x[0] * x[2] + x[1] * x[2]") == 16
    assert size("x[0] + (x[1] + x[2])") == size("(x[0] - -x[1]) + x[2]") == 10
    assert size("(x[0] + x[1]) / x[2]") == 4
    assert size("max(x[0], x[1])") == 3 and size("f32(f16(x[1]))") == 5


SHARED = SUM.replace("  y[0] = s\n", "  for j = 0; j < d; j + 1\n    y[j] = s\n")
"""Every element is the same sum: as many errors as one."""

BACKWARDS = SHARED.replace("s += x[j]", "s += x[d - 1 - j]")

VECTOR = dataclasses.replace(
    COPY, args=tuple(dataclasses.replace(a, dtype=a.dtype.replace("f16", "f32"), align=4) for a in COPY.args)
)


def _reordered(k: Kernel) -> Kernel:
    return k.with_(flags=k.flags | {"reassociates"})


def _loss(seed: int, d: int) -> Excess | None:
    """What one draw of the inputs says of two equally accurate sums."""
    args = VECTOR.make_inputs({"d": d}, None, seed)
    g, h = (run(kernel(k), args).outputs["y"] for k in (SHARED, BACKWARDS))
    return lost_accuracy(h, g, run(kernel(SHARED), args, domain="float64").outputs["y"])


def test_elements_that_share_an_error_are_one_roll_of_dice() -> None:
    unlucky = [seed for seed in range(12) if _loss(seed, 257)]
    assert unlucky, "no seed shows why there are several draws"
    for seed in unlucky[:3]:
        verdict = verify(kernel(SHARED), _reordered(kernel(BACKWARDS)), VECTOR, seed=seed)
        assert verdict.ok, verdict


def test_a_loss_that_every_draw_shows_is_one() -> None:
    rough = kernel(BACKWARDS, ("y[j] = s", "y[j] = f32(f16(s))"))
    for seed in range(3):
        verdict = verify(kernel(SHARED), _reordered(rough), VECTOR, seed=seed)
        assert verdict.status == "REJECTED" and verdict.layer == "float", verdict


@pytest.mark.parametrize(("shown", "ok"), [(DRAWS - 1, True), (DRAWS, False)])
def test_a_device_asks_again_where_only_the_buffer_as_a_whole_is_worse(monkeypatch, shown: int, ok: bool) -> None:
    asked = []

    def lost(*_) -> Excess | None:
        asked.append(1)
        return Excess((), 1.0, 3.0, 3.0, 2.0) if len(asked) <= shown else None

    monkeypatch.setattr(differential_module, "lost_accuracy", lost)
    backwards = ("x[row + i] * x[row + i]", "x[row + d - 1 - i] * x[row + d - 1 - i]")
    a, b = emitted(kernel(ROWS_TREE)), emitted(kernel(ROWS_SHUFFLE, backwards))
    verdict = differential(InterpretedRuntime(), a, b, ROWS, sizes=[{"n": 16, "d": 500}])
    assert verdict.ok == ok and len(asked) >= DRAWS, verdict


@pytest.mark.filterwarnings("error")
def test_infinities_are_judged_without_a_word() -> None:
    """numpy's warnings of infinities that meet would reach the user's terminal."""
    x = np.array([np.inf, 1.0, -np.inf, 2.0])
    assert lost_accuracy(x.astype(np.float32), x.astype(np.float32), x) is None
    endless = np.zeros(1, STORED)
    endless["value"] = endless["size"] = np.inf
    assert TermsDomain().error(endless).tolist() == [0.0]
    endless["linear"] = endless["square"] = 1e-7
    assert TermsDomain().error(endless).tolist() == [0.0]
