"""Ideas for sums of products that no tensor core takes: tiles in shared memory, and tiles of threads in registers.

Which of the two loops around the sum lies across a block's threads, and how each factor goes through shared memory,
follow from what moves by one element along what::

    along the sum    its tile is turned over on the way, so that what a thread needs at once lies together
    along its loop   its tile is copied as it is

Where both factors are turned over, wide loads into registers beat copies of single elements that bypass them; where one
is copied as it is, asynchronous copies of both keep more of them in flight.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from ktc.ir.analysis.access_nests import Access, accesses
from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import For, Load, Par, Reduce
from ktc.ir.types import Scalar
from ktc.passes.core.places import place_of
from ktc.passes.lowering.value_facts import ACCESS_BYTES
from ktc.passes.tensor.contractions import Product, products

from .nest_shapes import Idea

GAIN = 5.0
"""What tiles give over one element a thread, to order of magnitude: it only ranks the ideas."""


NEARLY = 0.9
"""Share of a device's units that get a block, at which a tile is tried second: a few idle units may cost less than
smaller tiles do."""


@dataclass(frozen=True)
class ThreadTile:
    """A block's tile: elements of the loop down and of the loop across its threads, how these share them, and the terms
    of a step."""

    down: int
    across: int
    down_levels: str
    across_levels: str
    terms: int

    @property
    def results(self) -> int:
        return self.down * self.across

    @property
    def most_blocks(self) -> int:
        """Blocks that a unit's registers have room for: each thread has its results and what it works with there."""
        threads = prod(int(n) for n in re.findall(r"thread\.\w (\d+)", f"{self.down_levels} {self.across_levels}"))
        return max(1, REGISTERS // (self.results + WORKING * threads))


REGISTERS = 65536
"""Of a unit, 32 bits each: NVIDIA's since 2014, and half of AMD's."""

WORKING = 48
"""Registers of a thread beside its results: addresses, counters, and the factors that it multiplies."""


BY_COPIES = (
    ThreadTile(128, 256, "vec 4, thread.y 16, unroll 2", "vec 4, thread.x 8, thread.z 2, unroll 4", 16),
    ThreadTile(64, 128, "vec 4, thread.y 8, unroll 2", "vec 4, thread.x 16, unroll 2", 16),
    ThreadTile(96, 128, "vec 4, thread.y 8, unroll 3", "vec 4, thread.x 8, thread.z 2, unroll 2", 8),
    ThreadTile(32, 128, "vec 4, thread.y 4, unroll 2", "vec 4, thread.x 32", 16),
    ThreadTile(64, 64, "vec 4, thread.y 8, unroll 2", "vec 4, thread.x 16", 16),
    ThreadTile(32, 64, "vec 4, thread.y 8", "vec 4, thread.x 16", 32),
    ThreadTile(16, 64, "vec 4, thread.y 4", "vec 4, thread.x 16", 16),
    ThreadTile(16, 32, "vec 2, thread.y 8", "vec 4, thread.x 8", 32),
)
"""For factors of which one at least is copied as it is. Largest first, but for one that fills last waves; measured on
products of 256 to 8192 rows (kernels/EXPERT.md), and 220 configurations each of 256, 512, 1024 and 2048 rows: threads
that hold eight rows by four columns lose least to reading shared memory where a unit has few warps."""

BY_REGISTERS = (
    ThreadTile(256, 128, "vec 4, thread.y 16, unroll 4", "vec 4, thread.x 16, unroll 2", 8),
    ThreadTile(128, 128, "vec 4, thread.y 8, unroll 4", "vec 4, thread.x 16, unroll 2", 8),
    ThreadTile(64, 128, "vec 4, thread.y 8, unroll 2", "vec 4, thread.x 16, unroll 2", 8),
    ThreadTile(64, 64, "vec 4, thread.y 8, unroll 2", "vec 4, thread.x 16", 16),
    ThreadTile(32, 64, "vec 4, thread.y 8", "vec 4, thread.x 16", 16),
    ThreadTile(16, 32, "vec 2, thread.y 8", "vec 4, thread.x 8", 16),
)
"""For factors that are both turned over, through registers; the order was measured on 8192 x 3072 sums of 768."""

TURNED_BY_COPIES = (
    ThreadTile(128, 128, "vec 4, thread.y 16, unroll 2", "vec 4, thread.x 16, unroll 2", 16),
    ThreadTile(64, 128, "vec 4, thread.y 8, unroll 2", "vec 4, thread.x 16, unroll 2", 16),
    ThreadTile(64, 64, "vec 4, thread.y 8, unroll 2", "vec 4, thread.x 16", 16),
    ThreadTile(32, 64, "vec 4, thread.y 8", "vec 4, thread.x 16", 16),
    ThreadTile(16, 32, "vec 2, thread.y 8", "vec 4, thread.x 8", 16),
)
"""The same by copies of single elements that bypass registers; measured on 1024 x 1024 sums of 1024, and on batches of
128 x 128 sums of 128 and 1024 x 1024 sums of 64."""

SHORT = 16
"""Steps of a sum, at most, at which it is short: its blocks begin and end more often than they add, so one step ahead
is enough, and tiles that leave room for more blocks on a unit come first."""

BUSY = 64 * 64
"""Results of a block of a short sum, at least, that comes first."""

UNKNOWN_TRIP = 1024
"""Iterations of a loop whose length the facts do not tell: only the order of tiles depends on it."""

MOST_BLOCKS = 4
"""Blocks of a unit that the compiler is asked to keep registers for."""

MANY_WAVES = 3
"""Times that the largest tiles fill a device, from which on factors are turned over through registers: that takes the
fewest instructions, where waiting does not count."""


COPIES_AHEAD = "async-copy{{loop={k}}} | multi-buffer{{loop={whole} stages={stages} issue=spread}}"
LOADS_AHEAD = "multi-buffer{{loop={whole} stages=2}}"
REGISTERS_AHEAD = "multi-buffer{{loop={whole} stages=2}} | prefetch{{loop={whole}}}"
"""How the next step's tiles come while this one's are used."""


@dataclass(frozen=True)
class Way:
    """How factors reach shared memory: the tiles that suit it, and how they come ahead, best first."""

    tiles: tuple[ThreadTile, ...]
    ahead: tuple[str, ...]


COPIED = Way(BY_COPIES, (COPIES_AHEAD, LOADS_AHEAD))
TURNED_IN_REGISTERS = Way(BY_REGISTERS, (REGISTERS_AHEAD, LOADS_AHEAD))
TURNED_BY_COPYING = Way(TURNED_BY_COPIES, (COPIES_AHEAD,))

SECOND = 2
"""Tiles proposed of the way that is expected to be the slower one."""


@dataclass(frozen=True)
class Layout:
    """A product's loops by where they go, and its factors, each with the ways through shared memory, best first."""

    down: Par
    across: Par
    factors: tuple[tuple[str, tuple[str, ...]], ...]
    lanes: int
    """Elements of a factor that a load takes at most."""

    @property
    def turned(self) -> bool:
        """Whether both factors are turned over."""
        return all(ways is TURNED for _, ways in self.factors)

    @property
    def one_turned(self) -> bool:
        """Whether a factor is turned over."""
        return any(ways is TURNED for _, ways in self.factors)


TURNED = ("transpose=yes vec={lanes}", "transpose=yes", "")
AS_IT_IS = ("vec={lanes}", "")
"""Ways of a factor into shared memory, best first; lanes: elements that a load takes at most."""


def layout_of(kernel: Kernel, p: Product) -> Layout:
    """The loop along which what is stored moves by one element lies across the threads."""

    def ways(x: Load) -> tuple[str, ...]:
        return TURNED if runs_along(kernel, p, x) else AS_IT_IS

    stored = results(kernel, p)
    turn = bool(stored) and all(a.pattern(p.rows.var.name) == "unit" for a in stored)
    factors = tuple((x.buffer.name, ways(x)) for x in (p.a, p.b))
    down, across = (p.cols, p.rows) if turn else (p.rows, p.cols)
    lanes = min(ACCESS_BYTES // x.type.bytes for x in (p.a, p.b) if isinstance(x.type, Scalar))
    return Layout(down, across, factors[::-1] if turn else factors, lanes)


def runs_along(kernel: Kernel, p: Product, x: Load) -> bool:
    """Whether neighbouring terms of the factor ``x`` lie side by side."""
    mine = [
        a for a in accesses(kernel)
        if a.buffer == x.buffer and a.mode == "read" and any(y.stmt is p.loop for y in a.axes)
    ]  # fmt: skip
    return bool(mine) and all(a.pattern(p.loop.var.name) == "unit" for a in mine)


def results(kernel: Kernel, p: Product) -> list[Access]:
    """The accesses that store in both the rows and the columns of ``p``."""
    around = {p.rows.var.name, p.cols.var.name}
    return [a for a in accesses(kernel) if a.mode != "read" and around <= {x.name for x in a.axes}]


def staged_products(
    raised: Kernel, units: int, facts: Sequence[KernelFacts], applies: Callable[[str], bool]
) -> Iterator[Idea]:
    """Steps after ``raise`` with why and a guess of the gain: of each tile, the best staging that ``applies``."""
    trips = {x.name: x.trip for f in facts for x in f.loops}
    for group in _together(raised):
        p = group[0]
        layout = _joint([layout_of(raised, x) for x in group])
        down, across, terms = (trips.get(x.var.name) for x in (layout.down, layout.across, p.loop))
        size = Size(down, across, terms, _batch(p, layout, trips), units)
        failed: set[Way] = set()
        for way, t in _tried(layout, size):
            tried = _schedules(raised, [x.loop for x in group], p, layout, way, _by_elements(t, size), size)
            found = None if way in failed else next(filter(applies, tried), None)
            if found is None:
                failed.add(way)  # nor will it for other tiles
                continue
            why = "tiles in shared memory and registers: each value read is used by many threads"
            inner = next(x.var.name for x in reversed(p.around) if x in (layout.down, layout.across))
            skipped = f"{found} | skip-masked{{loop={inner}_tile}}"
            if (size.across is None or t.across < size.across) and applies(skipped):
                yield skipped, f"{why}; tiles wholly behind the mask are not computed", GAIN + 1
            yield found, why, GAIN


@dataclass(frozen=True)
class Size:
    """How often a product's loops run, as far as it is known: down and across a block's threads, along the sum; how
    many products there are beside each other; and the units of the device that its blocks are for."""

    down: int | None
    across: int | None
    terms: int | None
    batch: int
    units: int

    @property
    def results(self) -> int:
        return (self.down or UNKNOWN_TRIP) * (self.across or UNKNOWN_TRIP) * self.batch

    def short(self, t: ThreadTile) -> bool:
        """Whether a block takes few steps of ``t``."""
        return self.terms is not None and self.terms <= SHORT * t.terms

    def stages(self, t: ThreadTile) -> str:
        """How many tiles of a factor lie in shared memory at once. A block that has a unit to itself waits for whatever
        its own copies do not bring early (256 x 256 sums of 256 on an H100: 8.1 us with two stages, 6.5 with three, 5.3
        with four); blocks of a short sum beside each other hide it, and begin and end more often than they add."""
        if self.results <= self.units * t.results:
            return "$STAGES:(3,4)"
        return "2" if self.short(t) else "$STAGES:(2,3,4)"


def _by_elements(t: ThreadTile, size: Size) -> ThreadTile:
    """``t`` with the results of a thread one by one where rows or columns end with a part of a vector: a thread has as
    many, and stores each by itself."""

    def spread(levels: str, n: int | None) -> str:
        lanes = re.match(r"vec (\d+)", levels)
        return levels.replace("vec", "unroll", 1) if lanes and n is not None and n % int(lanes[1]) else levels

    down, across = spread(t.down_levels, size.down), spread(t.across_levels, size.across)
    return replace(t, down_levels=down, across_levels=across)


def _batch(p: Product, layout: Layout, trips: Mapping[str, int | None]) -> int:
    return prod(trips.get(x.var.name) or UNKNOWN_TRIP for x in p.around if x not in (layout.down, layout.across))


def _tried(layout: Layout, size: Size) -> Iterator[tuple[Way, ThreadTile]]:
    """Ways with tiles, best first: of the slower way :data:`SECOND` tiles, behind as many of the faster one."""
    if not layout.turned:
        yield from ((COPIED, t) for t in in_order(COPIED, size))
        return
    steady = size.results >= MANY_WAVES * size.units * BY_REGISTERS[0].results and not size.short(BY_REGISTERS[0])
    ways = (TURNED_IN_REGISTERS, TURNED_BY_COPYING)
    first, second = ways if steady else ways[::-1]
    faster = [(first, t) for t in in_order(first, size)]
    yield from faster[:SECOND]
    yield from ((second, t) for t in in_order(second, size)[:SECOND])
    yield from faster[SECOND:]


def in_order(way: Way, size: Size) -> list[ThreadTile]:
    """Tiles that give each unit of the device a block come first, the largest of them at the head (of a
    short sum the smallest that has :data:`BUSY` results), and tiles that :data:`NEARLY` do behind it; those that reach
    beyond the rows or columns that there are (of each product of a batch, say) do not."""
    fit = [t for t in way.tiles if t.down <= (size.down or t.down) and t.across <= (size.across or t.across)]
    fed = [t for t in fit if size.results >= t.results * size.units]
    nearly = [t for t in fit if t not in fed and size.results >= NEARLY * t.results * size.units]
    short = [t for t in fed if size.short(t) and t.results >= BUSY][-1:]
    return list(dict.fromkeys((*short, *fed[:1], *nearly, *fed, *reversed(way.tiles))))


def _together(kernel: Kernel) -> list[list[Product]]:
    """The products of ``kernel``; those that are summed one after another in the same tile side by side."""
    groups: dict[object, list[Product]] = {}
    for p in products(kernel, plain=True):
        groups.setdefault((p.around[-1].var, p.rows.var, p.cols.var, p.loop.var.stem), []).append(p)
    return list(groups.values())


def _joint(layouts: Sequence[Layout]) -> Layout:
    """The layout of products that are summed in one tile: the first's, with the factors of all."""
    factors = dict(x for layout in layouts for x in layout.factors)
    return replace(layouts[0], factors=tuple(factors.items()))


def _schedules(
    kernel: Kernel, sums: Sequence[For | Reduce], p: Product, layout: Layout, way: Way, t: ThreadTile, size: Size
) -> Iterator[str]:
    """What is tried for one tile, best first, of the product ``p`` and those beside it, which go over ``sums``. Of
    factors that are turned over the launcher may ask that no terms are left behind the last whole step; wide copies
    ask for as much."""
    loops = [place_of(kernel, x) for x in sums]
    term, stem = p.loop.var.name, p.loop.var.stem
    sizes = {layout.down.var.name: t.down, layout.across.var.name: t.across}
    around = [x.var.name for x in p.around if x.var.name in sizes]
    whole = ",".join(f"{x.var.name}_tile" for x in sums)
    blocks = ",".join(str(n) for n in range(1, min(MOST_BLOCKS, t.most_blocks) + 1))
    stages = size.stages(t)
    even = layout.turned or (layout.one_turned and layout.lanes % t.terms == 0)  # wide copies leave no terms behind
    exact = even and size.terms is not None and size.terms % t.terms == 0
    for tail in ("exact", "cut") if exact else ("cut",):
        single = tail == "exact" and len(loops) == 1
        k, terms = (f"{term}_tile", term) if single else (f"{stem}_tile.*", f"{stem}.*")
        parts = "".join(
            f" | tile{{loops={n} sizes={t.terms} tail={tail}}}" for n in reversed(loops)
        )  # names stay valid
        tiles = (
            f"tile{{loops={','.join(around)} sizes={','.join(str(sizes[n]) for n in around)}}}"
            f" | map{{{layout.down.var.name}=[{t.down_levels}] {layout.across.var.name}=[{t.across_levels}]}}"
            f"{parts} | register-tile{{loop={k}}}"
        )
        last = f"unroll{{loop={terms} factor={t.terms}}} | launch-bounds{{blocks=$M:({blocks})}}"
        for ahead in way.ahead:
            for staged in _stagings(layout, k, by_copies="async" in ahead):
                yield " | ".join((tiles, staged, ahead.format(k=k, whole=whole, stages=stages), last))
        for staged in _stagings(layout, k, by_copies=False) if len(loops) > 1 else ():
            yield " | ".join((tiles, staged, last))


def _stagings(layout: Layout, k: str, by_copies: bool) -> Iterator[str]:
    """The factors' ways through shared memory. What is turned over gets a spare vector a row, against bank conflicts;
    asynchronous copies turn single elements over."""
    for plainer in range(3):
        staged, padded = [], []
        for name, ways in dict(layout.factors).items():  # both tiles of one array are staged at once
            mine = [w for w in ways if not (by_copies and w == TURNED[0])]
            way = mine[min(plainer, len(mine) - 1)].format(lanes=layout.lanes)
            staged.append(f"stage-shared{{array={name} loop={k}{' ' * bool(way)}{way}}}")
            padded += [f"pad-shared{{array={name}_s.* by={layout.lanes}}}"] if way.startswith("transpose") else []
        yield " | ".join(staged + padded)
