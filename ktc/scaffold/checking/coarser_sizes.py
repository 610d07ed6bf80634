"""Sizes that have to be multiples of more than the probes' are: a row of halves whose block has half as many threads as
the row has elements wants multiples of 64, for warps to be whole."""

from __future__ import annotations

from ..model import Draft
from ..probe import Prober, Seen
from .confirming import beyond_a_constant, defect

STEPS = (64, 128, 256, 512, 1024)
"""What is tried; sizes of probes are multiples of up to 32."""

RUNS = 3
"""At how many sizes it is looked at."""


def coarser(d: Draft, probe: Prober, seen: list[Seen]) -> list[Seen]:
    """``seen``; where runs have a defect that is gone with one size in multiples of more, with that rounded up."""
    if any(e is None for e in d.shapes.values()):
        return seen
    found = next(filter(None, (defect(d, probe, s.sizes) for s in seen[:RUNS])), "")
    if not found or beyond_a_constant(d, found):
        return seen
    own = [n for n in d.names if n in d.roles.sizes and n not in {**d.given, **d.stops}]
    for step in STEPS:
        for name in own:
            tried = [{**s.sizes, name: -(-s.sizes[name] // step) * step} for s in seen]
            if not any(defect(d, probe, sizes) for sizes in tried[:RUNS]):
                d.coarse = {name: step}
                looks = [probe.look(sizes, d.fills(probe, sizes)) for sizes in tried]
                return [s for s in looks if s is not None] or seen
    return seen


__all__ = ["coarser"]
