"""What a run says at its end."""

from __future__ import annotations

import dataclasses

from ktc.agent.planner import Outcome
from ktc.agent.report import OptimizeReport, ScenarioResult, Timed
from ktc.agent.stopping import Stopping

ONE = Timed(1.0, 1.0, 1.0)


def result(name: str, script: str, ratio: float) -> ScenarioResult:
    return ScenarioResult(
        name, {"n": 1}, False, ONE, ONE, (ratio, ratio, ratio), script, {"T": 8} if script else {}, ""
    )


def report(*results: ScenarioResult) -> OptimizeReport:
    return OptimizeReport("k", "k.cu", "", {}, "rules", results, (), "", {})


def test_an_original_that_nothing_beat_says_so() -> None:
    slower = (Outcome("raise", "tuned", gain=0.9),)
    said = dataclasses.replace(report(result("small", "", 1.0)), outcomes=slower).kept
    assert said == "nothing verified beat the original: the original is kept"


def test_where_nothing_was_compared_it_is_not_said_that_nothing_was_better() -> None:
    refused = (Outcome("raise", "refused"), Outcome("licm", "refused"), Outcome("licm", "refused"))
    said = dataclasses.replace(report(result("small", "", 1.0)), outcomes=refused).kept
    assert said == "nothing was measured against the original, which is kept: 2 scripts refused"
    none = report(result("small", "", 1.0))
    late = dataclasses.replace(none, notes=(f"small: {Stopping(deadline=0.0).why(1.0)}",))
    assert none.kept.endswith("no script was proposed") and "time limit was over before the first script" in late.kept


def test_a_script_that_beat_it_at_one_size_is_named() -> None:
    """1.39x in the table, and below it that nothing beat the original: which of them is to be believed?"""
    said = report(result("small", "raise | licm", 1.39), result("medium", "", 1.0)).kept
    assert "nothing" not in said and "the original is kept" in said and "at small by raise | licm T=8" in said


def test_candidates_that_no_input_tested_are_told_from_wrong_ones() -> None:
    """A guard against padding that no slot was: every candidate was refused, and nothing said what would help."""
    why = "UNKNOWN (coverage): 'slot >= 0' was true in every run"
    rejected = ({"script": "raise", "verdict": why}, {"script": "licm", "verdict": "REJECTED: wrong"})
    said = dataclasses.replace(report(result("small", "", 1.0)), rejected=rejected).kept
    assert "1 of 2 rejected for want of a test: 'slot >= 0' was true in every run" in said and "mark" in said
