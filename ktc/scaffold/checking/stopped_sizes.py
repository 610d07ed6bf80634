"""Sizes above which a kernel stops itself, by a trap or through a null pointer: it has a way for each of so many.

    if (which == 0) to = q; else if (which == 1) to = k; else if (which == 2) to = v;

Where ``which`` is a part of a block's number, three is how many of them every caller has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..model import Draft
from ..probe import STOPS, Prober, Seen

RUNS = 2
"""At how many sizes it is looked at."""


def without_stops(d: Draft, probe: Prober, seen: list[Seen]) -> list[Seen]:
    """``seen`` with the one size that makes the kernel stop as large as it may be, which the draft keeps; as it is if
    the kernel does not stop, or if that is not up to one size alone."""
    if any(e is None for e in d.shapes.values()):
        return seen
    stopped = [s for s in seen[:RUNS] if _stops(d, probe, s.sizes)]
    if not stopped:
        return seen
    own = [n for n in d.names if n in d.roles.sizes and n not in d.given]
    most = {n: [_most(d, probe, s.sizes, n) for s in stopped] for n in own}
    known = {n: min(found) for n, found in most.items() if all(found)}
    if len(known) != 1:
        return seen
    d.stops = known
    d.roles = replace(d.roles, room={**d.roles.room, **known})
    allowed = [{**s.sizes, **known} for s in seen]
    looks = [probe.look(at, d.fills(probe, at)) for at in allowed]
    return [s for s in looks if s is not None] or seen


def _most(d: Draft, probe: Prober, sizes: Mapping[str, int], name: str) -> int:
    """The largest value of a size, below what it is, at which the kernel does not stop; 0 if it does even at 1."""
    low, high = 0, sizes[name]
    while high - low > 1:
        middle = (low + high) // 2
        at = {**sizes, name: middle}
        low, high = (low, middle) if not probe.launches(at) or _stops(d, probe, at) else (middle, high)
    return low


def _stops(d: Draft, probe: Prober, sizes: Mapping[str, int]) -> bool:
    result = probe.exact(sizes, d.elements(sizes), d.fills(probe, sizes))
    return result is not None and any(f.kind in STOPS for f in result.findings)


__all__ = ["without_stops"]
