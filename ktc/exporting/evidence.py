"""What was measured of a run's winners: the points from which an export decides which of them runs for a call.

A call runs a variant only *between* measurements: each of its integer scalars lies between the least and the greatest
that the scalar had at points where some variant was faster than the original (the lower end of the 95 % interval at
least 1). There the nearest point decides (distance: the sum of the ratios' logarithms), together with those at most
twice as far away: of the variants that were timed at the nearest, the one whose least speed-up at these points is the
greatest, and the original where that is below 1 or nothing was timed. Everywhere else the original runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ktc.ir.workload import Workload
from ktc.search.records.recipe import Recipe

from .shipped.dispatch import FASTER

Configuration = tuple[str, tuple[tuple[str, int], ...]]
"""A script and its knobs."""


@dataclass(frozen=True)
class Measured:
    """What was timed at one scenario. ``ratios``: how much faster than the original each configuration was, with its
    95 % interval."""

    name: str
    sizes: Mapping[str, int]
    ratios: Mapping[Configuration, tuple[float, float, float]]

    @property
    def winner(self) -> Configuration | None:
        """The fastest configuration; None where the original was kept, or was as fast."""
        faster = [c for c, ratio in self.ratios.items() if ratio[1] >= FASTER]
        return max(faster, key=lambda c: self.ratios[c][1], default=None)


def measured(recipe: Recipe, work: Workload) -> Iterator[Measured]:
    """Every scenario that a run compared, held-out ones too."""
    known = {s.name: s.sizes for s in work.scenarios}
    for name, t in {**recipe.timings, **recipe.heldout}.items():
        sizes = t.get("sizes") or known.get(name)
        if sizes is None:
            continue
        timed = [x for x in (t, *t.get("others", ())) if x.get("script") and len(x.get("ratio", ())) == 3]
        yield Measured(name, sizes, {_configuration(x): _interval(x) for x in timed})


def _configuration(t: Mapping[str, Any]) -> Configuration:
    return str(t["script"]), tuple(sorted((k, int(v)) for k, v in t.get("knobs", {}).items()))


def _interval(t: Mapping[str, Any]) -> tuple[float, float, float]:
    ratio, low, high = map(float, t["ratio"])
    return ratio, low, high
