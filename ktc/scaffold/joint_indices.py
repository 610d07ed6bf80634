"""Indices into several buffers at once: they stay below the length of each.

``cost[to] = ...; if (!visited[to])`` with ``cost[i]`` for all ``i < n`` as well: what ``to`` is read from holds numbers
below ``n``. Probes hold smaller ones, so that ``cost`` has ``n`` elements whatever ``to`` is, and ``visited`` as many
as that says; larger ones would reach beyond the end of ``cost``.
"""

from __future__ import annotations

from collections.abc import Iterator

from .contents import Content
from .fitting import Found, badness, fitted
from .model import Draft
from .probe import Prober, Seen, constant
from .shapes import value_of
from .windows import names_in


def below_all(d: Draft, found: Found) -> Found:
    """``found`` with each index tied to the length of the shortest buffer that it is an index into and whose shape does
    not follow it, where the shapes fit as well then."""
    for c in (c for c in d.contents if c.kind == "index"):
        ties, shapes, seen = found
        if c.name in ties or c.within or not seen:
            continue
        for length in _lengths(d, found, c):
            other = fitted(d, {**ties, c.name: length})
            if other[2] and badness(other[1]) <= badness(shapes):
                found = other
                break
    return found


def _lengths(d: Draft, found: Found, c: Content) -> Iterator[str]:
    """Lengths of buffers that elements of ``c.buffer`` reach beyond when they are larger than all lengths, and of their
    dimensions, the shortest first: how long a sequence is, is no more than there is room for."""
    ties, shapes, seen = found
    at, probe = seen[0], Prober(d.kernel, d.roles, ties)
    beyond = 2 * max((e.value(at.sizes) for e in shapes.values() if e is not None), default=1)
    before, after = (_with(d, probe, at, c, size) for size in (1, beyond))
    if before is None or after is None:
        return
    reached = [
        e
        for b, e in shapes.items()
        if e is not None and b != c.buffer and c.name not in {n for f in e.factors for n in names_in(f)}
        if after.extent(b) > max(before.extent(b), e.value(at.sizes))
    ]
    whole = [(e.value(at.sizes), " * ".join(e.factors)) for e in reached if e.is_product and e.factors]
    parts = [(value_of(f, at.sizes), f) for e in reached for f in e.factors if f.isidentifier()]
    yield from dict.fromkeys(text for _, text in (*sorted(whole), *sorted(parts)))


def _with(d: Draft, probe: Prober, at: Seen, c: Content, size: int) -> Seen | None:
    """What is reached at the sizes of ``at`` where ``c`` has the size ``size``."""
    fills = {o.buffer: o.fill(probe.value(o.name, at.sizes), at.extent(o.buffer)) for o in d.contents}
    return probe.look(at.sizes, {**fills, c.buffer: constant(size - 1)})


__all__ = ["below_all"]
