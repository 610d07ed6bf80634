"""Ideas for sums of products that no tensor core takes: tiles in shared memory, and tiles of threads in registers.

Which of the two loops around the sum lies across a block's threads, and how each factor goes through shared memory,
follow from what moves by one element along what::

    along the sum    its tile is turned over on the way, so that what a thread needs at once lies together
    along its loop   its tile is copied as it is

Where both factors are turned over, wide loads into registers beat copies of single elements that bypass them; where one
is copied as it is, asynchronous copies of both keep more of them in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from ktc.ir.analysis.access_nests import Access, accesses
from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Load, Par
from ktc.passes.core.places import place_of
from ktc.passes.tensor.contractions import Product, products

from .ideas import Idea

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


BY_COPIES = (
    ThreadTile(128, 256, "vec 4, thread.y 16, unroll 2", "vec 4, thread.x 8, thread.z 2, unroll 4", 16),
    ThreadTile(64, 128, "vec 4, thread.y 8, unroll 2", "vec 4, thread.x 8, thread.z 2, unroll 2", 16),
    ThreadTile(96, 128, "vec 4, thread.y 8, unroll 3", "vec 4, thread.x 8, thread.z 2, unroll 2", 8),
    ThreadTile(64, 64, "vec 4, thread.y 8, thread.z 2", "vec 4, thread.x 8, unroll 2", 16),
    ThreadTile(32, 64, "vec 4, thread.y 8", "vec 4, thread.x 16", 32),
    ThreadTile(16, 32, "vec 2, thread.y 8", "vec 4, thread.x 8", 32),
)
"""For factors of which one at least is copied as it is. Largest first, but for one that fills last waves; measured on
products of 256 to 8192 rows (kernels/EXPERT.md)."""

BY_REGISTERS = (
    ThreadTile(256, 128, "vec 4, thread.y 16, unroll 4", "vec 4, thread.x 16, unroll 2", 8),
    ThreadTile(128, 128, "vec 4, thread.y 16, unroll 2", "vec 4, thread.x 16, unroll 2", 16),
    ThreadTile(64, 128, "vec 4, thread.y 8, unroll 2", "vec 4, thread.x 8, thread.z 2, unroll 2", 8),
    ThreadTile(64, 64, "vec 4, thread.y 8, thread.z 2", "vec 4, thread.x 8, unroll 2", 16),
    ThreadTile(32, 64, "vec 4, thread.y 8", "vec 4, thread.x 16", 16),
    ThreadTile(16, 32, "vec 2, thread.y 8", "vec 4, thread.x 8", 16),
)
"""For factors that are both turned over; the order was measured on 8192 x 3072 sums of 768."""

AHEAD_BY_COPIES = (
    "async-copy{{loop={k}}} | multi-buffer{{loop={whole} stages=$STAGES:(2,3,4) issue=spread}}",
    "multi-buffer{{loop={whole} stages=2}}",
)
AHEAD_BY_REGISTERS = ("multi-buffer{{loop={whole} stages=2}} | prefetch{{loop={whole}}}", *AHEAD_BY_COPIES)
"""How the next step's tiles come while this one's are used, best first."""


@dataclass(frozen=True)
class Layout:
    """A product's loops by where they go, and its factors, each with the ways through shared memory, best first."""

    down: Par
    across: Par
    factors: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def turned(self) -> bool:
        """Whether both factors are turned over."""
        return all(ways is TURNED for _, ways in self.factors)


TURNED = ("transpose=yes vec=4", "transpose=yes", "")
AS_IT_IS = ("vec=4", "")


def layout_of(kernel: Kernel, p: Product) -> Layout:
    """The loop along which what is stored moves by one element lies across the threads."""

    def ways(x: Load) -> tuple[str, ...]:
        return TURNED if runs_along(kernel, p, x) else AS_IT_IS

    stored = results(kernel, p)
    turn = bool(stored) and all(a.pattern(p.rows.var.name) == "unit" for a in stored)
    factors = tuple((x.buffer.name, ways(x)) for x in (p.a, p.b))
    down, across = (p.cols, p.rows) if turn else (p.rows, p.cols)
    return Layout(down, across, factors[::-1] if turn else factors)


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
    """Steps after ``raise`` with why and a guess of the gain: of each tile, the best staging that ``applies``.

    Tiles that give each of the ``units`` of the device a block come first, the largest of them at the head, and tiles
    that :data:`NEARLY` do behind it; those that reach beyond the rows or columns that there are (of each product of a
    batch, say) do not.
    """
    trips = {x.name: x.trip for f in facts for x in f.loops}
    for group in _together(raised):
        p = group[0]
        layout, terms = _joint([layout_of(raised, x) for x in group]), trips.get(p.loop.var.name)
        results = prod(trips.get(x.var.name) or 1024 for x in p.around)
        table = BY_REGISTERS if layout.turned else BY_COPIES
        down, across = (trips.get(x.var.name) or max(t.across for t in table) for x in (layout.down, layout.across))
        fit = [t for t in table if t.down <= down and t.across <= across]
        fed = [t for t in fit if results >= t.down * t.across * units]
        nearly = [t for t in fit if t not in fed and results >= NEARLY * t.down * t.across * units]
        for t in dict.fromkeys((*fed[:1], *nearly, *fed, *reversed(table))):
            whole_steps = (True,) if layout.turned and terms is not None and terms % t.terms == 0 else ()
            loops = [place_of(raised, x.loop) for x in group]
            tried = (steps for whole in (*whole_steps, False) for steps in _schedules(p, loops, layout, t, whole))
            found = next((steps for steps in tried if applies(steps)), None)
            if found is None:
                break  # nor will it for other tiles
            why = "tiles in shared memory and registers: each value read is used by many threads"
            inner = next(x.var.name for x in reversed(p.around) if x in (layout.down, layout.across))
            skipped = f"{found} | skip-masked{{loop={inner}_tile}}"
            if t.across < across and applies(skipped):
                yield skipped, f"{why}; tiles wholly behind the mask are not computed", GAIN + 1
            yield found, why, GAIN


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


def _schedules(p: Product, loops: Sequence[str], layout: Layout, t: ThreadTile, whole_steps: bool) -> Iterator[str]:
    """What is tried for one tile, best first, of the sum ``p`` and those beside it: all go over ``loops``.
    ``whole_steps``: the launcher may ask that no terms are left behind the last whole step; wide copies ask for as
    much."""
    term, stem = p.loop.var.name, p.loop.var.stem
    single = whole_steps and len(loops) == 1
    k, terms = (f"{term}_tile", term) if single else (f"{stem}_tile.*", f"{stem}.*")
    tail = "exact" if whole_steps else "cut"
    sizes = {layout.down.var.name: t.down, layout.across.var.name: t.across}
    around = [x.var.name for x in p.around if x.var.name in sizes]
    parts = "".join(f" | tile{{loops={n} sizes={t.terms} tail={tail}}}" for n in reversed(loops))  # names stay valid
    tiles = (
        f"tile{{loops={','.join(around)} sizes={','.join(str(sizes[n]) for n in around)}}}"
        f" | map{{{layout.down.var.name}=[{t.down_levels}] {layout.across.var.name}=[{t.across_levels}]}}"
        f"{parts} | register-tile{{loop={k}}}"
    )
    last = f"unroll{{loop={terms} factor={t.terms}}} | launch-bounds{{blocks=$M:(1,2,3,4)}}"
    for ahead in AHEAD_BY_REGISTERS if layout.turned else AHEAD_BY_COPIES:
        for staged in _stagings(layout, k, by_copies="async" in ahead):
            if len(loops) == 1:
                yield " | ".join((tiles, staged, ahead.format(k=k, whole=f"{term}_tile"), last))
    for staged in _stagings(layout, k, by_copies=False) if len(loops) > 1 else ():
        yield " | ".join((tiles, staged, last))


def _stagings(layout: Layout, k: str, by_copies: bool) -> Iterator[str]:
    """The factors' ways through shared memory. What is turned over gets a spare vector a row, against bank conflicts;
    asynchronous copies turn single elements over."""
    for plainer in range(3):
        staged, padded = [], []
        for name, ways in dict(layout.factors).items():  # both tiles of one array are staged at once
            mine = [w for w in ways if not (by_copies and w == TURNED[0])]
            way = mine[min(plainer, len(mine) - 1)]
            staged.append(f"stage-shared{{array={name} loop={k}{' ' * bool(way)}{way}}}")
            padded += [f"pad-shared{{array={name}_s.* by=4}}"] if way.startswith("transpose") else []
        yield " | ".join(staged + padded)
