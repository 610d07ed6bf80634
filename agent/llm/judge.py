"""The judge: from the numbers of a run, one bottleneck, one change, and whether anything is left to gain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ktc.agent.planner import MAX_SCRIPT_CHARS, Score

TEXT = {"type": "string"}
JUDGEMENT: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["near_the_bound", "bottleneck", "change"],
    "properties": {"near_the_bound": {"type": "boolean"}, "bottleneck": TEXT, "change": TEXT},
}

CREDIBLE = 0.75
"""Share of the bound from which on the judge's word that nothing is left to gain ends a run. Below it numbers and word
disagree, and the numbers count."""


@dataclass(frozen=True)
class Judgement:
    """``near``: nothing is left to gain; ``bottleneck``: what limits, in words; ``change``: a script ('': none)."""

    near: bool
    bottleneck: str
    change: str


def judgement(answer: Mapping[str, Any]) -> Judgement:
    """A model's answer, read leniently: only a plain ``true`` is near."""
    change = str(answer.get("change") or "").strip()[:MAX_SCRIPT_CHARS]
    return Judgement(answer.get("near_the_bound") is True, str(answer.get("bottleneck", ""))[:500], change)


def why_enough(j: Judgement, score: Score | None) -> tuple[str, str]:
    """(why the run ends, why the judge's word does not count): at most one of them is not ''."""
    if not j.near:
        return "", ""
    if score is None or not score.of_bound:
        return "", "the judge says that the bound is near, but no bound is known"
    if score.of_bound < CREDIBLE:
        return "", f"the judge says that the bound is near, but {score.of_bound:.0%} of it is verified"
    return f"the judge says that the bound is near ({score.of_bound:.0%}): {j.bottleneck}", ""
