"""The moves of planners that search among scripts: what may follow a script.

A move appends one site of the kernel that a script leads to, so that what is proposed is legal where it is proposed; a
script is built at most once by whoever answers ``attempt`` of the observation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ktc.agent.embedded.rules import Rules
from ktc.agent.expectations import Expectations
from ktc.agent.planner import MAX_STEPS, Observation, Outcome, Proposal
from ktc.agent.relief import FEW, urgency
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import sites
from ktc.passes.core.script import Script, Step

UNASKED = ("raise", "specialize")
"""Passes that are no move: the first begins every script, the second gives up generality, which the user decides on."""

LOOKED_AT = 12
"""Moves that are built from one script per round, at most: each costs the lowering of a kernel."""


@dataclass
class Moves(Expectations):
    """What may follow scripts on one kernel; remembers the sites of each script and the time expected of it."""

    rng: np.random.Generator
    _sites: dict[str, tuple[str, ...]] = field(default_factory=dict, kw_only=True)

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
