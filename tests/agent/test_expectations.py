"""What the cost model has to say about ideas: hopeless ones wait, everything else keeps its place."""

from __future__ import annotations

import dataclasses

import pytest

from ktc.agent.embedded.rules import Rules
from ktc.agent.expectations import SEPARATES, Expectations
from ktc.agent.planner import Outcome, Proposal
from tests.agent.agent_kernels import ROWS, STREAM
from tests.agent.exploring.test_exploring import on_h100

IDEAS = [Proposal(name, "") for name in "abcdef"]


class Made(Expectations):
    """Expected times are made up: ``times`` by script."""

    times: dict[str, float | None]

    def expected(self, script: str) -> float | None:
        return self.times.get(script)


def hopeful(times: dict[str, float | None], leader: str = "", *tried: str) -> tuple[str, str]:
    o = dataclasses.replace(on_h100(STREAM), leader=leader, history=tuple(Outcome(s, "tuned") for s in tried))
    made = Made(o)
    made.times = times
    waiting: list[Proposal] = []
    first = [p.script for p in made.hopeful(IDEAS, waiting)]
    return "".join(first), "".join(p.script for p in waiting)


FAR = 2 * SEPARATES


@pytest.mark.parametrize(
    "times, first, last",
    [
        (dict.fromkeys("abcdef", 1.0), "abcdef", ""),
        ({"a": 1.0, "b": FAR, "c": SEPARATES, "d": 0.5 * FAR + 1, "e": 1.0, "f": 3.0}, "acef", "db"),
        ({"a": FAR, "b": 1.0, "c": FAR}, "abdef", "c"),
        ({"b": 1.0, "c": FAR}, "abdef", "c"),
        ({}, "abcdef", ""),
    ],
)
def test_what_is_far_from_the_best_before_it_waits(times: dict, first: str, last: str) -> None:
    assert hopeful(times) == (first, last)


def test_the_fastest_that_was_measured_counts_and_what_was_tried_does_not_come_again() -> None:
    assert hopeful({"x": 1.0, "a": FAR, "b": 2.0}, "x", "x", "c") == ("bdef", "a")


def test_the_first_idea_waits_for_no_estimate() -> None:
    asked: list[str] = []

    class Asked(Made):
        def expected(self, script: str) -> float | None:
            asked.append(script)
            return 1.0

    stream = Asked(on_h100(STREAM)).hopeful(IDEAS, [])
    assert next(stream).script == "a" and asked == []
    assert next(stream).script == "b" and asked == ["a", "b"]


def test_the_rules_lose_no_idea_and_keep_the_first() -> None:
    o = on_h100(ROWS)
    unknown = dataclasses.replace(o, device=dataclasses.replace(o.device, name="a GPU that nobody knows"))
    ranked, plain = ([p.script for p in Rules().propose(x, 12)] for x in (o, unknown))
    assert ranked[0] == plain[0] and sorted(ranked) == sorted(plain)
