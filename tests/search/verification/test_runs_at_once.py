"""Runs of a verdict that differ in their data alone are made at once, and it is the verdict that it is without."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ktc.ir.frontend import load
from ktc.ir.interp import RunResult, run
from ktc.ir.interp.launches_at_once import Lanes
from ktc.ir.kernel import Kernel
from ktc.search.verification import job, oracle, verify
from ktc.search.verification.rungs import lost_extremes
from ktc.search.verification.sharing.shared_runs import Planned, planned
from ktc.search.verification.verdict import Verdict
from tests.search.verification.test_gate_infinities import HEAD, IN_PARTS, TAIL, WHOLE, WORK

UNGUARDED = IN_PARTS.replace("both == -INFINITY ? 0.0f : both", "both")
"""Where all elements so far are minus infinity, infinities are taken from each other."""


def climbed(monkeypatch: pytest.MonkeyPatch, body: str, most: int) -> tuple[Verdict, Counter[int]]:
    """The verdict on ``body``, of ``most`` launches at once; and how many runs of so many launches it took."""
    launches: Counter[int] = Counter()

    def counted(kernel: Kernel, args: Any, **more: Any) -> RunResult:
        launches[1 + len(more.get("beside", ()))] += 1
        return run(kernel, args, **more)

    with monkeypatch.context() as patch:
        for module in (job, oracle, lost_extremes):
            patch.setattr(module, "run", counted)
        patch.setattr(oracle, "_oracles", type(oracle._oracles)())
        patch.setattr(Lanes, "most_at_once", lambda *_: most)
        original, candidate = (load(HEAD + text + TAIL) for text in (WHOLE, body))
        candidate = candidate.with_(flags=candidate.flags | {"reassociates"})
        return verify(original, candidate, WORK, layers=("float",), count=3), launches


@pytest.mark.parametrize("body", [IN_PARTS, UNGUARDED])
def test_the_verdict_is_that_of_runs_one_by_one(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    verdict, some = climbed(monkeypatch, body, most=4)
    same, each = climbed(monkeypatch, body, most=1)
    assert (verdict.status, verdict.failure, verdict.reason) == (same.status, same.failure, same.reason)
    assert verdict.status == ("REJECTED" if body == UNGUARDED else "TESTED")
    assert set(each) == {1}
    assert max(some) > 1 and (not verdict.ok or some.total() < 0.7 * each.total()), (some, each)


def test_a_plan_says_which_runs_are_made_at_once() -> None:
    what = planned("candidate", {"n": 3}, "float", ("plain", "wild"))
    assert Planned.from_json(what.to_json()) == what
    assert what.name != planned("candidate", {"n": 3}, "float", "plain").name
