"""Scripts that scenarios take over from others once the time is over."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace as Made

import pytest

from ktc.agent.embedded import rounds

Times = dict[str, dict[str, float]]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """The scenarios and scripts that are measured."""
    calls: list[tuple[str, str]] = []
    monkeypatch.setattr(rounds, "_measured", lambda run, s, c, total, seeds: calls.append((s.name, c.key)))
    yield calls


def handed(times: Times, withdrawn: str = "") -> None:
    """``times``: of each scenario the time of the original, called '', and of scripts."""
    of = {
        at: [Made(candidate=Made(key=k), seconds=t, knobs={}) for k, t in found.items()] for at, found in times.items()
    }
    run = Made(
        finalists=of,
        totals={(at, k): 1 for at, found in times.items() for k in found},
        is_withdrawn=lambda c: c.key == withdrawn,
        is_verified=lambda f: True,
    )
    for at in times:
        rounds.hand_on(run, Made(name=at))  # type: ignore[arg-type]


def test_what_is_worth_more_elsewhere_is_tried_where_it_had_no_turn(taken: list[tuple[str, str]]) -> None:
    handed({"large": {"": 9.0, "slow": 18.0}, "small": {"": 1.0, "tile": 0.5, "plain": 0.9}})
    assert taken == [("large", "tile"), ("large", "plain")]


def test_what_is_worth_less_than_what_was_found_here_is_not(taken: list[tuple[str, str]]) -> None:
    handed({"large": {"": 9.0, "tile": 3.0}, "small": {"": 1.0, "plain": 0.5}})
    assert taken == [("small", "tile")]


def test_what_had_its_turn_or_was_withdrawn_is_not_tried_again(taken: list[tuple[str, str]]) -> None:
    handed({"large": {"": 9.0, "tile": 9.5}, "small": {"": 1.0, "tile": 0.5, "wrong": 0.1}}, withdrawn="wrong")
    assert taken == []


def test_a_scenario_that_had_no_turn_at_all_takes_none(taken: list[tuple[str, str]]) -> None:
    rounds.hand_on(Made(finalists={"small": []}), Made(name="large"))  # type: ignore[arg-type]
    assert taken == []
