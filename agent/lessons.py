"""What a run takes from the knowledge base and leaves in it: scripts by roles, rules of thumb, and the record of both.

A script that won on a kernel like this one is measured first, at its defaults and at the knobs that won. If it is no
faster then, it costs no third measurement: the race goes on without it, unless a planner has the same idea.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.workload import Scenario

from .build import Candidate
from .features import distance, features
from .learnt_rules import LearntRule, LearntRules
from .loop_roles import Roles
from .memory import Lesson
from .planner import Outcome, Proposal
from .precedents import Precedents
from .scripts import of_any_sizes, unconditional

if TYPE_CHECKING:
    from .state import Finalist, Run

MEMORY = "memory"
"""The planner of proposals that were remembered."""

KEPT = 0.5
"""Share of its remembered speed-up (in excess of 1) that a script has to reach to stay in the race, unless it leads."""


def recalled(run: Run, scenario: Scenario, seen: KernelFacts) -> list[tuple[Lesson, str]]:
    """Lessons of kernels like this one, each with its script in this kernel's names.

    Conditions of a script were stated for the sizes of its kernel: on another they do not count.
    """
    if run.memory is None:
        return []
    roles, mine, out = Roles.of(seen), features(seen), []
    for lesson in run.memory.nearest(seen, run.lab.device):
        script = roles.concrete(lesson.script)
        if script is not None:
            script = script if not distance(mine, lesson.features) else unconditional(script)
            out.append((lesson, run.builder.whole(Proposal(script, "")).script))
    return out


def remembered(found: list[tuple[Lesson, str]]) -> tuple[Proposal, ...]:
    """Lessons as proposals."""
    whys = ((x, s, f"won {x.gain:.2f}x on a similar kernel") for x, s in found)
    return tuple(Proposal(s, why, x.gain, MEMORY) for x, s, why in whys)


def precedents(run: Run, seen: KernelFacts) -> Precedents:
    """Schedules that won on other kernels."""
    lessons = run.memory.lessons() if run.memory is not None else []
    return Precedents.of(seen, lessons, run.lab.device.backend)


def knobs_of(run: Run, scenario: Scenario, seen: KernelFacts, c: Candidate) -> list[Mapping[str, int]]:
    """Knob values that won with the script of ``c`` on kernels like this one, or with its schedule elsewhere."""
    found: list[Mapping[str, int]] = [x.knobs for x, s in recalled(run, scenario, seen) if s == c.script]
    elsewhere = precedents(run, seen).knobs(c) if not found else None
    return [elsewhere] if elsewhere is not None else found


def is_remembered(c: Candidate) -> bool:
    """Whether nobody but the knowledge base proposed ``c``."""
    return c.proposal is not None and c.proposal.planner == MEMORY


def is_wrong(run: Run, scenario: Scenario, c: Candidate) -> bool:
    """Whether ``c`` was remembered, has been measured, and is not what was remembered of it."""
    p = c.proposal
    if p is None or not is_remembered(c) or not run.totals.get((scenario.name, c.key)):
        return False
    o = run.outcomes.get((scenario.name, c.script))
    gain = o.gain if o is not None and o.gain is not None else 0.0
    leads = any(f.candidate.key == c.key for f in run.finalists[scenario.name][1:2])
    return gain <= 1.0 or not (leads or gain - 1 >= KEPT * ((p.predicted or 1.0) - 1))


def remember(run: Run, scenario: Scenario, seen: KernelFacts) -> None:
    """Keep what each verified script gained on ``scenario`` for later runs on similar kernels, and what became of the
    lessons and rules of earlier ones."""
    if run.memory is None:
        return
    d, roles = run.lab.device, Roles.of(seen)
    original, *rest = run.finalists[scenario.name]
    fastest: dict[str, Finalist] = {}
    for f in filter(run.is_verified, rest):
        fastest.setdefault(f.candidate.script, f)
    found = recalled(run, scenario, seen)
    for script, f in fastest.items():
        gain = original.seconds / f.seconds
        general = roles.abstract(of_any_sizes(script))
        run.memory.add(Lesson(d.backend, d.name, features(seen), general, dict(f.knobs), gain))
    for lesson, script in found:
        o = run.outcomes.get((scenario.name, script)) or run.outcomes.get(("", script))
        if (
            o is not None
            and _failed(o)
            and script not in {s for s, f in fastest.items() if f.seconds < original.seconds}
        ):
            run.memory.contradict(lesson)
    winner = min(fastest.values(), key=lambda f: f.seconds, default=original)
    if winner.seconds < original.seconds:
        LearntRules(run.memory).test(rules(run, seen), winner.candidate.script)


def _failed(o: Outcome) -> bool:
    """Whether an outcome says anything about a lesson: what was not tried, or is another script's code, does not."""
    return o.status not in ("duplicate", "refused", "infeasible")


def rules(run: Run, seen: KernelFacts) -> list[LearntRule]:
    """Rules of thumb about kernels like this one."""
    return LearntRules(run.memory).near(seen) if run.memory is not None else []


def keep_rule(run: Run, seen: KernelFacts, rule: LearntRule) -> None:
    """Add what a model has learnt from this run."""
    if run.memory is not None:
        LearntRules(run.memory).add(seen, replace(rule, held=0, missed=0))
