"""What was measured of a run's winners: the points from which an export decides which of them runs for a call.

A call runs a variant only *between* measurements: each of its integer scalars lies between the least and the greatest
that the scalar had at points where some variant was faster than the original (the lower end of the 95 % interval at
least 1). There the nearest point decides (by the sum of the ratios' logarithms), and points at which the original was
kept, or a variant was no faster, decide for the original. Everywhere else the original runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ktc.ir.workload import Workload
from ktc.search.records.recipe import Recipe

FASTER = 1.0
"""The lower end of the interval of a speed-up from which on a variant counts as faster."""

Configuration = tuple[str, tuple[tuple[str, int], ...]]
"""A script and its knobs."""


@dataclass(frozen=True)
class Measured:
    """What ran at one scenario: ``winner`` is None where the original was kept, or was as fast."""

    name: str
    sizes: Mapping[str, int]
    winner: Configuration | None
    ratio: tuple[float, ...]


def measured(recipe: Recipe, work: Workload) -> Iterator[Measured]:
    """Every scenario that a run compared, held-out ones too."""
    known = {s.name: s.sizes for s in work.scenarios}
    for name, t in {**recipe.timings, **recipe.heldout}.items():
        sizes = t.get("sizes") or known.get(name)
        if sizes is None:
            continue
        ratio = tuple(float(x) for x in t.get("ratio", ()))
        faster = bool(t.get("script")) and len(ratio) == 3 and ratio[1] >= FASTER
        yield Measured(name, sizes, _configuration(t) if faster else None, ratio)


def _configuration(t: Mapping[str, Any]) -> Configuration:
    return str(t["script"]), tuple(sorted((k, int(v)) for k, v in t.get("knobs", {}).items()))
