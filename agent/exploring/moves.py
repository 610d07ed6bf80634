"""The moves of planners that search among scripts: what may follow a script, and how long one is expected to take.

A move appends one site of the kernel that a script leads to, so that what is proposed is legal where it is proposed; a
script is built at most once by whoever answers ``attempt`` of the observation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ktc.agent.embedded.rules import Rules
from ktc.agent.planner import MAX_STEPS, Observation, Outcome, Proposal
from ktc.agent.relief import FEW, urgency
from ktc.ir.analysis.register_pressure import register_estimate
from ktc.ir.analysis.schedule_counts import schedule_counts
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel, bind
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script, sites
from ktc.passes.core.script import Script, Step
from ktc.passes.lowering import materialise
from ktc.search.bounds.cost_model import Estimate, estimate, machine_of
from ktc.search.space.knob_space import completed

UNASKED = ("raise", "specialize")
"""Passes that are no move: the first begins every script, the second gives up generality, which the user decides on."""

LOOKED_AT = 12
"""Moves that are built from one script per round, at most: each costs the lowering of a kernel."""


@dataclass
class Moves:
    """What may follow scripts on one kernel; remembers the sites of each script and the time expected of it."""

    observation: Observation
    rng: np.random.Generator
    _sites: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _estimated: dict[str, list[Estimate]] = field(default_factory=dict)

    def after(self, script: str) -> tuple[str, ...]:
        """Scripts that are ``script`` and one more step, legal by themselves or not: first what addresses its limiter,
        as far as that is known, else in an order drawn at random."""
        if script not in self._sites:
            kernel = self.kernel(script)
            base = parse_script(script)
            steps: list[Step] = []
            if kernel is not None and len(base.steps) < MAX_STEPS:
                found = (s.step for group in sites(kernel).values() for s in group)
                steps = [s for s in found if s.name not in UNASKED]
            drawn, limiters = [steps[i] for i in self.rng.permutation(len(steps))], self.limiters(script)
            drawn.sort(key=lambda s: urgency(s.name, limiters))
            self._sites[script] = tuple(str(Script((*base.steps, s), base.where)) for s in drawn)
        return self._sites[script]

    def limiters(self, script: str) -> tuple[str, ...]:
        """What limits ``script``: as it was profiled, else by the cost model; none where neither knows."""
        if script == self.observation.leader and self.observation.limiters:
            return self.observation.limiters
        found = self.explained(script)
        return tuple(sorted(found.terms, key=lambda t: -found.terms[t]))[:FEW] if found is not None else ()

    def legal(self, script: str, without: set[str], most: int = LOOKED_AT) -> Iterator[str]:
        """Scripts of :meth:`after` that can be lowered and are not among ``without``; ``most`` are tried."""
        fresh = [s for s in self.after(script) if s not in without][:most]
        yield from (s for s in fresh if self.observation.attempt(s) is None)

    def kernel(self, script: str) -> Kernel | None:
        """The kernel after ``script``; None where a step is refused."""
        try:
            applied = apply_script(self.observation.kernel, parse_script(script))
        except KtcError:
            return None
        return applied.kernel if applied.refused is None else None

    def lowered(self, script: str) -> Kernel | None:
        """The kernel after ``script`` for threads, its knobs at their defaults or near them."""
        kernel = self.kernel(script)
        try:
            return materialise(bind(kernel, completed(kernel, {}))) if kernel is not None else None
        except KtcError:
            return None

    def expected(self, script: str) -> float | None:
        """Seconds by the cost model at the script's defaults, the geometric mean of the sizes observed; None where the
        model knows neither the device nor the launch."""
        logs = [math.log(e.seconds) for e in self._estimates(script)]
        return math.exp(sum(logs) / len(logs)) if logs else None

    def explained(self, script: str) -> Estimate | None:
        """The estimate of ``script`` at the first of the sizes observed, with its reasons."""
        found = self._estimates(script)
        return found[0] if found else None

    def _estimates(self, script: str) -> list[Estimate]:
        """One for each of the sizes observed; none where one of them has none."""
        if script not in self._estimated:
            self._estimated[script] = self._estimated_now(script)
        return self._estimated[script]

    def _estimated_now(self, script: str) -> list[Estimate]:
        device = self.observation.device
        try:
            machine = machine_of(device.name, device.compute_units)
        except KeyError:
            return []
        kernel = self.lowered(script)
        if kernel is None:
            return []
        out = []
        for f in self.observation.facts:
            counts = schedule_counts(kernel, f.sizes)
            found = estimate(counts, register_estimate(kernel), machine) if counts is not None else None
            if found is None:
                return []
            out.append(found)
        return out

    def ranked(self, scripts: Sequence[str]) -> list[str]:
        """``scripts`` by expected time; those without one last, in their order."""
        return sorted(scripts, key=lambda s: math.inf if (t := self.expected(s)) is None else t)


def root(o: Observation) -> str:
    """The script that all others begin with."""
    return "raise" if o.raised is not None else ""


def measured(history: Sequence[Outcome]) -> Mapping[str, float]:
    """Speed-up over the original by script, of what was measured; the original has 1."""
    gains = {"": 1.0}
    for h in history:
        if h.gain is not None:
            gains[h.script] = max(gains.get(h.script, 0.0), h.gain)
    return gains


def sketches(o: Observation, k: int, moves: Moves) -> list[Proposal]:
    """The rules' ideas, as many as ``k``, those that are expected to be fastest first."""
    found = {p.script: p for p in Rules().propose(o, k)}
    return [found[s] for s in moves.ranked(list(found))]
