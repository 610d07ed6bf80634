"""Schedules that won on other kernels: ideas of such schedules come first, and their knobs after the defaults."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ktc.agent.build import Builder, Candidate
from ktc.agent.embedded.rules import Rules
from ktc.agent.loop_roles import Roles
from ktc.agent.memory import Lesson, Memory, features
from ktc.agent.planner import Proposal
from ktc.agent.precedents import FAR, Precedents, schedule
from ktc.ir.text import parse_kernel
from tests.agent.agent_kernels import ROWS, SIZES
from tests.agent.embedded.test_rules import observe
from tests.agent.test_lessons import run, seen

WIDE = "raise | distribute{loop=_unit_0_0 map=[vec $V, thread.x $T, unroll $U]} where V * T < 512"
LATER = 2
"""The place of an idea that has a precedent, among those of the rules."""


def won(script: str, gain: float = 2.0, misses: int = 0, far: float = 0.0, **knobs: int) -> Lesson:
    """By roles, on a kernel that is ``far`` away."""
    here = features(seen())
    return Lesson("cuda", "GPU", here | {"rank": here["rank"] + far / 2.0}, script, knobs, gain, misses=misses)


@pytest.mark.parametrize(
    "script",
    [
        "raise | distribute{loop=_unit_3_1 map=[vec $V:1,2, thread.x $T, unroll $U=4]}",
        "raise | distribute{loop=_unit_0_0 map=[vec $V, thread.x $T:(32,64), unroll $U]} | fast-math{fns=exp}",
    ],
)
def test_a_schedule_is_what_does_not_depend_on_one_kernel(script: str) -> None:
    assert schedule(script) == schedule(WIDE) != ""


def test_other_levels_loops_and_knobs_are_other_schedules() -> None:
    others = [WIDE.replace("unroll", "seq"), WIDE.replace("_unit_", "_strided_"), WIDE.replace("$U", "$W")]
    assert len({schedule(s) for s in [WIDE, *others]}) == 4
    assert schedule("raise | fast-math{fns=exp}") == schedule("") == ""


def test_the_nearest_kernels_count_and_only_what_won_there() -> None:
    far, other = WIDE.replace("unroll", "seq"), WIDE.replace("$U", "$W")
    lessons = [won(far, 9.0, far=3.0), won(WIDE, 1.5, V=2), won(WIDE, 1.2, V=8), won(other, far=FAR + 1)]
    found = Precedents.of(seen(), [*lessons, won(other, misses=2), won(other, 0.9)], "cuda")
    assert list(found.lessons) == [schedule(WIDE), schedule(far)] and found.lessons[schedule(WIDE)].knobs == {"V": 2}
    assert not Precedents.of(seen(), lessons, "opencl")
    roles = Roles.of(seen())
    assert [found.place(str(roles.concrete(s))) for s in (WIDE, far, other)] == [0, 1, None]


def test_knobs_are_those_that_won_as_near_as_their_domains_allow() -> None:
    builder = Builder(parse_kernel(ROWS))
    built = builder.build(Proposal("raise | distribute{loop=i map=[vec $V, thread.x $T:(64,128), unroll $U]}", ""))
    assert isinstance(built, Candidate)
    found = Precedents.of(seen(), [won(WIDE, V=4, T=1024, M=2)], "cuda").knobs(built)
    assert found == {"V": 4, "T": 128, "U": next(k.default for k in built.kernel.knobs if k.name == "U")}
    assert Precedents.of(seen(), [], "cuda").knobs(built) is None


def test_ideas_of_such_schedules_come_first_and_no_other_is_lost() -> None:
    _, o = observe(ROWS, SIZES["rows"])
    before = [p.script for p in Rules().propose(o, 6)]
    roles = Roles.of(o.facts[0])
    known = Precedents(roles, {schedule(roles.abstract(before[LATER])): won(WIDE)})
    o = dataclasses.replace(o, precedent=known.place)
    after = [p.script for p in Rules().propose(o, 6)]
    assert after == [before[LATER], *before[:LATER], *before[LATER + 1 :]]


def test_the_values_that_won_elsewhere_are_measured_after_the_defaults(tmp_path: Path) -> None:
    memory = Memory(":memory:")
    memory.add(won("raise | distribute{loop=_unit_7_0 map=[vec $V, thread.x $T, seq]}", far=3.0, V=2, T=1024))
    _, lab = run(tmp_path, memory, budget=6)
    assert lab.measured[2][2] == (("T", 1024), ("V", 2)), "after the original and the defaults"
    _, lab = run(tmp_path / "without", Memory(":memory:"), budget=6)
    assert lab.measured[2][2] != (("T", 1024), ("V", 2))
