"""How long scripts are expected to take on the observed device, at their default knobs, by the cost model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ktc.ir.analysis.planner_facts import facts
from ktc.ir.diagnostics import KtcError
from ktc.ir.kernel import Kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from ktc.search.bounds.cost_model import Estimate, estimate_of, machine_of
from ktc.search.space.knob_space import completed

from .gate import bound
from .planner import Observation, Proposal
from .verdicts import launchable

SEPARATES = 8.0
"""Times the expected time of the best idea so far from which on another waits until all others had their turn. It is
wide, because default knobs may be several times slower than the best: ideas that win are within 4 of the best by their
defaults on the library's kernels, what waits there reads or updates the same memory again and again."""


@dataclass
class Expectations:
    """Of the scripts of one observation, each looked at once."""

    observation: Observation
    _estimated: dict[str, list[Estimate]] = field(default_factory=dict, kw_only=True)

    def kernel(self, script: str) -> Kernel | None:
        """The kernel after ``script``; None where a step is refused."""
        if self.observation.built is not None:
            return self.observation.built(script)
        try:
            applied = apply_script(self.observation.kernel, parse_script(script))
        except KtcError:
            return None
        return applied.kernel if applied.refused is None else None

    def lowered(self, script: str) -> Kernel | None:
        """The kernel after ``script`` for threads, its knobs at their defaults or near them."""
        kernel = self.kernel(script)
        try:
            return materialise(bound(kernel, completed(launchable(kernel), {}))) if kernel is not None else None
        except KtcError:
            return None

    def expected(self, script: str) -> float | None:
        """Seconds by the cost model at the script's defaults, the geometric mean of the sizes observed; None where the
        model does not know the device, the launch or how often a loop goes round."""
        found = self._estimates(script)
        logs = [math.log(e.seconds) for e in found]
        return math.exp(sum(logs) / len(logs)) if logs and all(e.whole for e in found) else None

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
            found = estimate_of(kernel, f.sizes, machine)
            if found is None:
                return []
            out.append(found)
        return out

    def ranked(self, scripts: Sequence[str]) -> list[str]:
        """``scripts`` by expected time; those without one last, in their order."""
        return sorted(scripts, key=lambda s: math.inf if (t := self.expected(s)) is None else t)

    def hopeful(self, ideas: Iterable[Proposal], waiting: list[Proposal]) -> Iterator[Proposal]:
        """New ``ideas`` in their order, without those that are expected to take :data:`SEPARATES` times as long as the
        best of those before, or as the fastest that was measured: they go to ``waiting``, by expected time.

        The first is given out before anything is estimated; what nothing is expected of is hopeful.
        """
        best = self.expected(self.observation.leader) if self.observation.leader else None
        late: list[tuple[float, Proposal]] = []
        tried = {h.script for h in self.observation.history}
        for p in (p for p in ideas if p.script not in tried):
            if best is None:
                yield p
                best = self.expected(p.script)
                continue
            time = self.expected(p.script)
            if time is not None and time > SEPARATES * best:
                late.append((time, p))
                continue
            yield p
            best = best if time is None else min(best, time)
        waiting += [p for _, p in sorted(late, key=lambda x: x[0])]


def behind(o: Observation, before: str, kernel: Kernel) -> tuple[Observation, Callable[[Proposal], Proposal]]:
    """The observation as a planner sees it that begins where the steps ``before``, each with a bar behind it, have led
    to ``kernel`` from the raised kernel; and a proposal of such a planner as one for ``o``."""

    def whole(script: str) -> str:
        first, bar, more = script.partition(" | ")
        return f"{first} | {before}{more}" if bar else f"{first} | {before.removesuffix(' | ')}"

    seen = tuple(facts(kernel, f.sizes) for f in o.facts)
    there = replace(
        o, raised=kernel, facts=seen, attempt=lambda script: o.attempt(whole(script)),
        built=lambda script: Expectations(o).kernel(whole(script)), runs=lambda script: o.runs(whole(script)),
    )  # fmt: skip
    return there, lambda p: replace(p, script=whole(p.script))
