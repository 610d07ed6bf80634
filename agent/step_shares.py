"""What each step of a winner is worth: without it, the kernel meets the winner once more.

A step without which the kernel is shown to be as fast is dropped, once the ladder accepts what is left; of the
others the report says how much slower the kernel is without them. A step that later ones stand on cannot be left out
alone.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace

from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Scenario
from ktc.passes.core.language import parse_script
from ktc.passes.core.script import Script, Step

from .build import Candidate
from .lab import Comparison
from .planner import Proposal
from .report import StepShare
from .scripts import approximates
from .state import Finalist, Run

LEAST_SECONDS = 5.0
"""Seconds that one winner's steps may take, at least."""

SHARE_OF_RUN = 0.2
"""And as a share of what the run took so far."""

AS_FAST = 0.98
"""What is as fast: by the interval of a duel it may be as fast or faster, and is no slower than this. A duel that is
too noisy to say so drops nothing but approximations, which have to show that they are worth it: there the median
counts."""

WHY = "a winner without what it does not need"


@dataclass(frozen=True)
class Winner:
    """A verified finalist, what its meeting with the original gave, and how it was verified."""

    finalist: Finalist
    found: Comparison
    verdict: str
    shares: tuple[StepShare, ...] = ()


def without_idle_steps(run: Run, scenario: Scenario, winner: Winner) -> Winner:
    """``winner`` without steps that have no effect on its time, and the share of each that is left.

    Nothing is tried once the time for ``scenario`` is over; what there was no time for has no share. A script that was
    asked for as it is stays so.
    """
    if (proposal := winner.finalist.candidate.proposal) is not None and proposal.whole:
        return winner
    until = time.monotonic() + max(LEAST_SECONDS, SHARE_OF_RUN * (time.monotonic() - run.started))
    measured: dict[str, StepShare] = {}
    won, dropped = winner, []
    begins = frozenset(map(str, parse_script(run.builder.start).steps))
    place = len(_steps(won.finalist))
    while (place := place - 1) >= 0:
        step = str(_steps(won.finalist)[place])
        if step in begins:
            continue
        if run.is_late(scenario) or time.monotonic() > until:
            break
        less = _left_out(run, scenario, won.finalist, place, until)
        if isinstance(less, str):
            measured[step] = StepShare(step, None, less)
            continue
        f, ratio = less
        least = ratio[0] if approximates(_steps(won.finalist)[place]) else ratio[1]
        idle = least >= AS_FAST and ratio[2] >= 1.0
        if idle and (verdict := _accepted(run, f, until)) and not run.is_withdrawn(f.candidate):
            won = replace(won, finalist=f, verdict=verdict)
            dropped.append(step)
        else:
            measured[step] = StepShare(step, 1.0 / ratio[0])
    if dropped:
        try:
            found = run.lab.compare(won.finalist.candidate, won.finalist.knobs, scenario)
        except KtcError:
            return winner
        if found.verdict != "ok" or found.ratio[1] <= 1.0:
            return winner
        run.notes += [f"{scenario.name}: dropped, for the kernel is as fast without it: {step}" for step in dropped]
        won = replace(won, found=found, finalist=replace(won.finalist, seconds=found.after.median))
        run.admit(won.finalist, scenario)
    left = [str(s) for s in _steps(won.finalist) if str(s) not in begins]
    return replace(won, shares=tuple(measured.get(s, StepShare(s, None, "no time was left")) for s in left))


def _accepted(run: Run, f: Finalist, until: float) -> str:
    """How the ladder accepts ``f``, if it says so in time; else ''."""
    in_time = run.is_decided(f, max(0.0, until - time.monotonic()))
    return run.gate_final(f.candidate, f.knobs, max(0.0, until - time.monotonic())) if in_time else ""


def _left_out(
    run: Run, scenario: Scenario, f: Finalist, place: int, until: float
) -> tuple[Finalist, tuple[float, float, float]] | str:
    """``f`` without the step at ``place``, and how much faster than ``f`` that is, with its interval; or why there is
    no such thing, or none is known ``until`` then."""
    built = _built(run, f, place)
    if isinstance(built, str):
        return built
    names = {k.name for k in built.kernel.knobs}
    knobs = {name: v for name, v in f.knobs.items() if name in names}
    if built.key == f.candidate.key and knobs == dict(f.knobs):
        return Finalist(built, knobs, f.seconds), (1.0, 1.0, 1.0)
    left = max(0.0, until - time.monotonic())
    if names - knobs.keys() or not run.lab.feasible(built, knobs, scenario) or not run.may_be_measured(built, left):
        return "nothing at the same knobs may run without it"
    run.clean_device()
    try:
        found = run.lab.compare(built, knobs, scenario, (f.candidate, f.knobs))
    except KtcError as e:
        return f"without it: {e.message}"
    if found.verdict != "ok":
        return f"without it: {found.verdict}"
    run.tell("left_out", scenario=scenario.name, step=str(_steps(f)[place]), ratio=found.ratio)
    return Finalist(built, knobs, found.after.median), found.ratio


def _built(run: Run, f: Finalist, place: int) -> Candidate | str:
    """The script of ``f`` without the step at ``place``, and without constraints on knobs that go with it."""
    script = parse_script(f.candidate.script)
    steps = tuple(s for n, s in enumerate(script.steps) if n != place)
    bare = run.builder.build(Proposal(str(Script(steps)), WHY))
    if not isinstance(bare, Candidate):
        return "others stand on it"
    gone = {k.name for k in f.candidate.kernel.knobs} - {k.name for k in bare.kernel.knobs}
    where = tuple(w for w in script.where if not gone & set(re.findall(r"\w+", w)))
    built = run.builder.build(Proposal(str(Script(steps, where)), WHY))
    return built if isinstance(built, Candidate) else built.detail


def _steps(f: Finalist) -> tuple[Step, ...]:
    return parse_script(f.candidate.script).steps
