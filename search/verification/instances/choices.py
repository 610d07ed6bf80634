"""Which combinations of sizes to try first.

One size at a time walks through its awkward values, the others small: cheap, and long rows come early. But what goes
wrong at one tile's edge often needs another size to be a whole number of tiles, or large enough to matter at all, so
as many choices set all sizes at once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .sizes import BEYOND, around

if TYPE_CHECKING:
    from .instances import Maker

EDGE = 64
"""The largest tile whose edges all sizes are put around at once."""

LONG = 32 * 32 + BEYOND
"""Long enough that a tile of 32 fits once more or once less where a factor or divisor of 32 is one off."""


def choices(maker: Maker) -> Iterator[dict[str, int]]:
    """Sizes to try, the most telling first, in turns: all at their tiles' edges, one inner size, an outer one, all."""
    base = maker.base()
    if not base:
        yield from () if maker.names else ({},)  # a kernel of one size alone
        return
    values = {n: maker.values(n, base) for n in maker.names}
    few = {n: [v for v in values[n] if v <= maker.steps[n].at(3)][:3] or [base[n]] for n in maker.names}
    few = {n: sorted(vs, reverse=True) for n, vs in few.items()}  # the first is not so small that a halo is all it is
    inner = sorted((n for n in maker.names if maker.inner[n]), key=lambda n: -maker.inner[n])
    outer = [n for n in maker.names if not maker.inner[n]]
    small = [t for t in sorted(maker.tiles, reverse=True) if t <= EDGE] or [t for t in (8,) if maker.tiles]

    def walk(names: list[str]) -> Iterator[dict[str, int]]:
        for k in range(max((len(values[n]) for n in names), default=0)):
            for n in names:
                if k < len(values[n]):
                    yield {m: values[n][k] if m == n else few[m][k % len(few[m])] for m in maker.names}

    def edges() -> Iterator[dict[str, int]]:
        """Every size at an edge of a small tile, each at another one, in step of its own."""
        near = {n: [v for t in small for v in around(t, maker.steps[n])] for n in maker.names}
        near = {n: list(dict.fromkeys(v for v in vs if v in set(values[n]))) or [base[n]] for n, vs in near.items()}
        strides = {n: _coprime(k + 1, len(near[n])) for k, n in enumerate(maker.names)}
        for j in range(max(map(len, near.values()))):
            yield {n: near[n][(j * strides[n] + k) % len(near[n])] for k, n in enumerate(maker.names)}

    def corners() -> Iterator[dict[str, int]]:
        """Whole tiles and broken ones of the largest tile that fits: every pair of sizes in all four ways."""

        def at(t: int, row: int) -> dict[str, int]:
            broken = [(row & k + 1).bit_count() % 2 for k in range(len(maker.names))]  # an orthogonal array
            return {n: maker.near(n, t + b * BEYOND) for n, b in zip(maker.names, broken)}

        rows = range(1 << len(maker.names).bit_length())
        fits = (t for t in sorted(maker.tiles, reverse=True) if all(maker.make(at(t, r)) is not None for r in rows))
        for t in itertools.islice(fits, 1):
            yield from (at(t, r) for r in reversed(rows))

    def long() -> Iterator[dict[str, int]]:
        """Each inner size, long: see :data:`LONG`."""
        for n in inner:
            yield {m: few[m][0] for m in maker.names} | {n: maker.near(n, LONG)}

    def together() -> Iterator[dict[str, int]]:
        for k in range(max(len(v) for v in values.values())):
            for back in range(len(maker.names) + 1):  # outer sizes smaller, until it fits
                yield {n: values[n][min(k + back * (not maker.inner[n]), len(values[n]) - 1)] for n in maker.names}

    def pairs() -> Iterator[dict[str, int]]:
        for a, b in itertools.combinations(maker.names, 2):
            for x, y in itertools.product(values[a], values[b]):
                yield {**base, a: x, b: y}

    def scenarios() -> Iterator[dict[str, int]]:
        """The workload's own, which no size is degenerate in, from the cheapest."""
        known = [maker.make({n: int(s.sizes[n]) for n in maker.names}) for s in maker.workload.scenarios]
        yield from (dict(i.sizes) for i in sorted((i for i in known if i is not None), key=lambda i: i.cost))

    def alike() -> Iterator[dict[str, int]]:
        """All sizes about as large as each other: a quarter of what fits, for the work of a block is their product."""
        for most in sorted({v for n in maker.names for v in values[n]}, reverse=True):
            sizes = {n: max((v for v in values[n] if v <= most), default=base[n]) for n in maker.names}
            made = maker.make(sizes)
            if made is not None and made.cost <= maker.limit // 4:
                yield sizes
                return

    def many() -> Iterator[dict[str, int]]:
        """Each outer size by itself as large as half of what fits allows: of rows that coarsened blocks and persistent
        ones share out again and again, the last share has something to do as well. The others not so small that a halo
        is all there is; and as small as they get."""
        for which, n in itertools.product((0, -1), outer):
            for k in range(maker.longest(n).bit_length() - 1, 0, -1):
                sizes = {m: few[m][which] for m in maker.names} | {n: maker.near(n, (1 << k) + BEYOND)}
                made = maker.make(sizes)
                if made is not None and made.cost <= maker.limit // 2:
                    yield sizes
                    break

    edge, line = edges(), walk(inner)
    turns = [edge, line, corners(), edge, scenarios(), line, walk(outer), edge, many(), long(), alike(), together()]
    yield from _turns(turns if len(maker.names) > 1 else [walk(inner), walk(outer), scenarios()], maker)
    yield from pairs()


def _turns(walks: list[Iterator[dict[str, int]]], maker: Maker) -> Iterator[dict[str, int]]:
    """One new feasible choice of each walk in turn, until all are exhausted."""
    seen: set[tuple[int, ...]] = set()
    while walks:
        for w in list(walks):
            for sizes in w:
                key = tuple(sizes.values())
                if key not in seen and maker.make(sizes) is not None:
                    seen.add(key)
                    yield sizes
                    break
            else:
                walks.remove(w)


def _coprime(least: int, n: int) -> int:
    """The least number from ``least`` on that shares no factor with ``n``."""
    return next(k for k in itertools.count(least) if math.gcd(k, n) == 1)


__all__ = ["choices"]
