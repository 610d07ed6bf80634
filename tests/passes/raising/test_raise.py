"""raise: what it understands, what it refuses, and that the exact check stands behind every guess."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Barrier, HwIndex, Par, Reduce
from ktc.ir.text import parse_kernel, print_kernel
from ktc.ir.walk import all_exprs, walk
from ktc.passes.core.base import Refused, Result
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.exact_check import differs
from ktc.passes.raising.raise_ import Raise
from tests.passes.raising import raised_once
from tests.passes.spmd_sources import BROKEN_TREE, CARRIED, NEIGHBOUR, PERMUTED, RAISABLE, ROW_SUM, SAXPY, TWO_D


def raised(source: str) -> Kernel:
    return raised_once.raised(source)[1].kernel


@pytest.mark.parametrize("name", RAISABLE)
def test_raises_to_loops_without_threads_or_barriers(name: str) -> None:
    kernel = raised(RAISABLE[name])
    assert not any(isinstance(e, HwIndex) for e in all_exprs(kernel.body))
    assert not any(isinstance(s, Barrier) for s in walk(kernel.body))
    assert any(isinstance(s, Par) for s in walk(kernel.body))


@pytest.mark.parametrize("name", RAISABLE)
def test_lowering_again_keeps_the_work_mapping(name: str) -> None:
    """Raised and lowered with nothing in between: the same launch, the same results, no races."""
    source = parse_kernel(RAISABLE[name])
    lowered = materialise(raised(RAISABLE[name]))
    assert differs(source, lowered) == ""
    rng = np.random.default_rng(3)
    args: dict = {"n": 5, "d": 37, "h": 6, "w": 19, "a": 2.0, "eps": 1.0}
    args |= {name: rng.integers(1, 5, 4096).astype(np.float32) for name in ("x", "y", "out", "in")}
    names = {p.sym.name for p in source.params}
    args = {k: v for k, v in args.items() if k in names}
    want, got = run(source, args, domain="int"), run(lowered, args, domain="int")
    assert not got.findings
    for k, v in want.outputs.items():
        np.testing.assert_array_equal(got.outputs[k], v)


def test_bounds_come_from_the_guard() -> None:
    text = print_kernel(raised(TWO_D))
    assert "par y in 1..h - 1" in text and "par x in 1..w - 1" in text
    assert "par i in 0..n" in print_kernel(raised(SAXPY))


def test_a_tree_becomes_a_reduction_of_the_right_operator() -> None:
    sums = [s for s in walk(raised(ROW_SUM).body) if isinstance(s, Reduce)]
    assert [a.op for s in sums for a in s.accs] == ["+"]
    peaks = [s for s in walk(raised(RAISABLE["shuffle"]).body) if isinstance(s, Reduce)]
    assert [a.op for s in peaks for a in s.accs] == ["max"]
    assert "reassociates" in raised(ROW_SUM).flags


@pytest.mark.parametrize(
    "source, code",
    [
        (NEIGHBOUR, "E-RAISE-CHECK"),  # a race in the source
        (SAXPY.replace("  launch grid(cdiv(n, 64)) block(64)\n", ""), "E-RAISE-LAUNCH"),
    ],
    ids=["neighbour", "no-launch"],
)
def test_refuses_with_a_code_and_the_same_object(source: str, code: str) -> None:
    kernel = parse_kernel(source)
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Refused) and outcome.code == code, outcome
    assert outcome.why


@pytest.mark.parametrize("source", [BROKEN_TREE, CARRIED], ids=["broken-tree", "carried"])
def test_what_is_not_understood_stays_a_loop_over_threads(source: str) -> None:
    """A tree that misses its last step is not a reduction, nor is anything else made up: same steps, said so."""
    kernel = parse_kernel(source)
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result)
    assert not any(isinstance(s, Reduce) for s in walk(outcome.kernel.body))
    assert any("left:" in note for note in outcome.notes), outcome.notes
    lowered = materialise(outcome.kernel)
    assert differs(kernel, lowered) == ""
    assert lowered.launch is not None and kernel.launch is not None and lowered.launch.block == kernel.launch.block
    barriers = [sum(isinstance(s, Barrier) for s in walk(k.body)) for k in (kernel, lowered)]
    assert barriers[0] == barriers[1], print_kernel(lowered)


def test_a_permutation_through_shared_memory_needs_none() -> None:
    text = print_kernel(raised(PERMUTED))
    assert "shared" not in text and "y[" in text


def test_the_check_catches_a_wrong_guess() -> None:
    """Seeded bugs in the raised form: a shorter range, a wrong operator, a wrong element."""
    source = parse_kernel(ROW_SUM)
    good = print_kernel(raised(ROW_SUM))
    for old, new in [
        ("0..d", "1..d"),
        ("reduce(+)", "reduce(max)"),
        ("yield v * v", "yield v"),
        ("row + i", "row + 0 * i"),
    ]:
        assert old in good, (old, good)
        wrong = parse_kernel(good.replace(old, new, 1))
        assert differs(source, wrong) != "", (old, new)


def test_raising_twice_is_refused() -> None:
    outcome = Raise().run(raised(SAXPY))
    assert isinstance(outcome, Refused) and outcome.code == "E-RAISE-DONE"
