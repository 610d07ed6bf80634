"""What raising works out once, however many forms it tries: forms, sets of arguments, runs of the source."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.arith.polynomial import polynomial
from ktc.ir.fold import add, i32, mul
from ktc.ir.frontend.entry_points import load
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Decl, Var, fresh
from ktc.ir.types import I32
from ktc.ir.walk import substitute
from ktc.passes.core.base import Refused, Result
from ktc.passes.raising import candidates
from ktc.passes.raising import raise_ as raising
from ktc.passes.raising.check import undefined_exits
from ktc.passes.raising.check.buffer_extents import enlarged
from ktc.passes.raising.check.chosen_sets import SIZES, ChosenSets
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.raise_ import Raise
from ktc.passes.raising.recognise.block import Blocked

from .raised_once import outcome_of
from .test_raise_exits import TOTAL
from .test_raise_row_ends import CHOSEN

TILE = """
__global__ void turned(const int* __restrict__ x, int* __restrict__ y, int n) {
  __shared__ int tile[64];
  int t = threadIdx.x;
  tile[t % 8 * 8 + t / 8] = x[blockIdx.x * 64 + t];
  __syncthreads();
  y[blockIdx.x * 64 + t] = tile[t];
}
void go(const int* x, int* y, int n) { turned<<<n, 64>>>(x, y, n); }
"""

FAR = """
__global__ void far(const int* __restrict__ x, int* __restrict__ y, int n) {
  int i = threadIdx.x;
  y[i] = i;
  for (int k = 0; k < n; ++k) y[i + 32] += x[500];
}
void go(const int* x, int* y, int n) { far<<<1, 32>>>(x, y, n); }
"""


def test_forms_are_made_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[str, ...]] = []
    made = candidates._guess

    def counted(variant: object, team: tuple[str, ...], *rest: object) -> object:
        begun.append(team)
        return made(variant, team, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(candidates, "_guess", counted)
    kernel = load(CHOSEN, name="source.cu")
    assert kernel.launch is not None
    forms = raising._forms(kernel, kernel.launch)
    next(forms)
    assert len(begun) == 1
    with pytest.raises(Blocked):  # why the simplest reading of it is none
        list(forms)
    assert len(begun) > 4, begun


def test_the_sets_of_a_source_are_chosen_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its threads leave before the others meet, so that what it reads as is another form of it."""
    chosen: list[Kernel] = []
    choose = ChosenSets._choose

    def noted(self: ChosenSets, instances: int, seed: int) -> None:
        if self.sizes is SIZES:
            chosen.append(self.source)
        choose(self, instances, seed)

    monkeypatch.setattr(ChosenSets, "_choose", noted)
    assert isinstance(Raise().run(load(TOTAL, name="source.cu")), Result)
    assert len(chosen) == 1


def test_a_reference_that_begins_anew_has_its_sets_and_its_budget() -> None:
    """Of floats: those of integers are not run in another domain."""
    kernel, found = outcome_of(TOTAL.replace("int*", "float*").replace("int part", "float part"))
    assert isinstance(found, Result)
    reference = Reference(kernel)
    before = reference.budget.work
    assert reference.differs(found.kernel) == "" and reference.budget.work > before
    again = reference.anew()
    assert again.sets is reference.sets and again.budget.work == before and not again.late
    assert again.differs(found.kernel) == ""
    assert reference.budget.work > again.budget.work > before  # the source's own runs are there


def test_the_set_on_which_a_guess_was_wrong_is_the_next_one_s_first(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, _ = outcome_of(TOTAL)
    wrong = load(TOTAL.replace("y[blockIdx.x] = part[0];", "y[blockIdx.x] = part[0] + (n > 20);"), name="source.cu")
    reference = Reference(kernel)
    assert reference.differs(kernel) == ""
    said = reference.differs(wrong)
    assert said
    before = reference.budget.work
    assert reference.differs(wrong) == said
    assert reference.budget.work - before <= max(r.work for r in reference._runs.values())
    assert reference.differs(kernel) == ""  # and one that is right is compared on all of them


def test_nothing_is_tried_in_turn_where_nothing_can_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is that of the first form."""
    tried: list[object] = []
    compare = Reference.differs

    def counted(self: Reference, *given: object, **named: object) -> str:
        tried.append(given)
        return compare(self, *given, **named)  # type: ignore[arg-type]

    def none(self: ChosenSets, instances: int, seed: int) -> None: ...

    monkeypatch.setattr(Reference, "differs", counted)
    monkeypatch.setattr(ChosenSets, "_choose", none)
    outcome = Raise().run(load(TILE, name="source.cu"))
    assert isinstance(outcome, Refused) and outcome.code == "E-RAISE-BUDGET"
    assert outcome.why == "not checked: no small launch satisfies the kernel's assumptions"
    assert len(tried) == 1


def test_only_buffers_that_were_reached_beyond_their_ends_grow() -> None:
    args = {"x": np.arange(4), "y": np.arange(4), "n": 7}
    larger = enlarged(args, {"x": 10, "n": 20})
    assert larger["x"].tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert larger["y"] is args["y"] and larger["n"] == 7
    assert enlarged(args, {"x": 3})["x"] is args["x"]


def test_a_launch_that_says_nothing_of_exits_ends_early() -> None:
    """At a defect of its own, and at an access beyond a buffer, which is larger then."""
    kernel = load(FAR, name="source.cu")
    args = {"x": np.zeros(8, np.int32), "y": np.zeros(64, np.int32), "n": np.int32(9)}
    found = undefined_exits._in_room(kernel, args)
    assert found is not None
    larger, result = found
    assert larger["x"].size == 1000 and larger["y"].size == 64 and not result.findings
    racing = load(FAR.replace("y[i]", "y[i / 2]"), name="source.cu")
    found = undefined_exits._in_room(racing, {**args, "x": np.zeros(1000, np.int32)})
    assert found is not None and [f.kind for f in found[1].findings] == ["race"] and found[1].steps < result.steps


def test_polynomials_that_are_changed_are_their_askers_own() -> None:
    n = Var(fresh("n", I32))
    e = add(mul(n, i32(3)), i32(2))
    mine = polynomial(e)
    mine[()] = 7
    assert polynomial(e) == {(n,): 3, (): 2}


def test_what_mentions_none_of_the_names_stays_the_same_statement() -> None:
    a, b, c = (fresh(name, I32) for name in "abc")
    body = (Decl(a, i32(1)), Assign(b, Var(c)), Assign(b, add(Var(a), Var(c))))
    changed = substitute(body, {a: i32(5)})
    assert changed[:2] == body[:2] and changed[0] is body[0] and changed[1] is body[1]
    assert changed[2] == Assign(b, add(i32(5), Var(c)))
    assert substitute(body, {fresh("d", I32): i32(5)}) is body
