"""Launches that are alike: rows of a kernel that differ only in scalars that count (a step, a seed, an offset)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from .profile_format import Geometry, Launched, Shape, Times

MANY = 8
"""More values of a scalar than these at one geometry: it counts, it is no size, and its launches are one shape."""


def grouped(f: Launched) -> tuple[Shape, ...]:
    """The shapes of ``f``: its rows, those that differ in counting scalars taken together. Each is as the row that took
    longest, and ``varies``."""
    by_geometry: dict[Geometry, list[Shape]] = defaultdict(list)
    for s in f.shapes:
        by_geometry[s.geometry].append(s)
    return tuple(s for rows in by_geometry.values() for s in _of_geometry(f, rows))


def counting(f: Launched, rows: Sequence[Shape]) -> frozenset[int]:
    """Offsets of the scalar parameters that have more than :data:`MANY` values among ``rows``."""
    pointers = {p.offset for s in f.shapes for p in s.pointers}
    found = set()
    for offset, size in f.parameters:
        inside = size <= 8 and offset in pointers  # of a struct, what else it holds may count
        if not inside and len({s.arguments[offset : offset + size] for s in rows}) > MANY:
            found.add(offset)
    return frozenset(found)


def _of_geometry(f: Launched, rows: Sequence[Shape]) -> list[Shape]:
    known = [s for s in rows if not s.others]
    varying = counting(f, known)
    if not varying:
        return list(rows)
    pointers = {p.offset for p in known[0].pointers}
    keep = [(a, b) for a, b in f.parameters if a not in varying and not any(a <= p < a + b for p in pointers)]
    groups: dict[tuple[object, ...], list[Shape]] = defaultdict(list)
    for s in known:
        missing = tuple(p.offset for p in s.pointers if not p.address)
        groups[(missing, *(s.arguments[a : a + b] for a, b in keep))].append(s)
    rest = [s for s in rows if s.others]
    if len(groups) == 1:
        (only,) = groups.values()
        groups, rest = {(): [*only, *rest]}, []
    return [*(_together(g) for g in groups.values()), *rest]


def _together(rows: Sequence[Shape]) -> Shape:
    first = max((s for s in rows if not s.others), key=lambda s: s.times.total)
    times = sum((s.times for s in rows), Times())
    launches, captured = sum(s.launches for s in rows), sum(s.captured for s in rows)
    return replace(first, launches=launches, captured=captured, times=times, varies=len(rows) > 1)
