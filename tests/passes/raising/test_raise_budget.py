"""What raising's check may cost: counted in work of the interpreter, so that no verdict depends on the machine."""

from __future__ import annotations

import itertools

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.passes.core.base import Refused, Result
from ktc.passes.raising.check import work_budget as check
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.raise_ import Raise
from tests.passes.raising.reduction_sources import TREE_BACKWARDS, UNROLLED_WARP

COPY = """
__global__ void k(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
void host(float* y, const float* x, int n) { k<<<(n + 63) / 64, 64>>>(y, x, n); }
"""


def test_a_slow_machine_raises_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second goes by whenever the check looks at the clock."""
    kernel = load(TREE_BACKWARDS, name="source.cu")
    quick = Raise().apply(load(TREE_BACKWARDS, name="source.cu"), {})
    clock = itertools.count()
    monkeypatch.setattr(check.time, "process_time", lambda: float(next(clock)))
    slow = Raise().apply(kernel, {})
    assert isinstance(quick, Result) and isinstance(slow, Result)
    assert slow.notes == quick.notes and next(clock) > 20


def test_what_costs_more_than_the_budget_is_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "CHECK_WORK", 200)
    outcome = Raise().apply(load(TREE_BACKWARDS, name="source.cu"), {})
    assert isinstance(outcome, Refused) and outcome.code == "E-RAISE-BUDGET"
    assert (
        outcome.why == check.too_long() == "not checked within 200 statements of the interpreter, though on small sizes"
    )


def test_sizes_below_zero_that_never_end_cost_little() -> None:
    """``i < (blockIdx.x + 1) * n`` is an unsigned comparison: nearly endless for every negative ``n``."""
    reference = Reference(load(UNROLLED_WARP, name="source.cu"))
    assert reference.sets and reference.budget.work < check.CHECK_WORK / 10


def test_a_kernel_is_raised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts of a search begin alike; a kernel of the same text is another one all the same."""
    attempt, raised = Raise._attempt, []
    monkeypatch.setattr(Raise, "_attempt", lambda self, *of: raised.append(of) or attempt(self, *of))
    kernel, other = (load(COPY, name="source.cu") for _ in range(2))
    first = Raise().apply(kernel, {})
    assert isinstance(first, Result)
    assert Raise().apply(kernel, {}) is first and len(raised) == 1
    assert Raise().apply(other, {}) is not first and len(raised) == 2


def test_values_that_differ_are_said_with_their_statement() -> None:
    """What a guess gets wrong is named by where the source stores it."""
    source = load(COPY, name="source.cu")
    wrong = Raise().apply(load(COPY.replace("y[i] = x[i]", "y[i] = x[i] + 1.f"), name="other.cu"), {})
    assert isinstance(wrong, Result)
    assert Reference(source).differs(wrong.kernel).startswith("source.cu:4:15: y[")
