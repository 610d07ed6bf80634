"""Filters over a plane: a tile with its rim in shared memory, and rows of results in a thread's registers.

    par y, x: for dy, dx: acc += in[y + dy, x + dx] * w[dy, dx]      tiles of y and x; ``in`` with its rim staged, what
                                                                      is beyond the edges decided once an element; a
                                                                      thread sums a few rows and columns at once

Loops over the filter are unrolled, so that the rows and columns of a thread share what they read: of 25 taps a result,
eight results read 60 elements of the tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ktc.agent.ideas import Idea
from ktc.ir.analysis.nest import Access, Axis, accesses
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel


@dataclass(frozen=True)
class Tile:
    """Rows and columns of results a block computes, and how its threads share them."""

    rows: int
    cols: int
    down: str
    across: str


TILES = (
    Tile(16, 64, "unroll 4, thread.y 4", "vec 2, thread.x 32"),
    Tile(32, 64, "unroll 8, thread.y 4", "vec 2, thread.x 32"),
    Tile(32, 32, "unroll 8, thread.y 4", "thread.x 32"),
)
"""Of a filter of 5 x 5, instructions a result (nvcc 13.0, sm_90): 54, 47 and 67, over 233 where a thread has one."""

MOST_TAPS = 11
"""Turns of a loop over a filter that are still written out."""

GAIN = 3.0


def halo_tiles(raised: Kernel, applies: Callable[[str], bool]) -> Iterator[Idea]:
    """What ``applies`` of :data:`TILES`, for arrays that neighbours in a plane read in common by serial loops."""
    found = accesses(raised)
    written = {a.buffer for a in found if a.mode != "read"}
    plans: dict[tuple[str, ...], tuple[list[Axis], list[Axis], list[str]]] = {}
    for a in found:
        nest = [x for x in a.axes if x.kind == "par"]
        filters = [x for x in a.axes if x.kind == "for"]
        if a.space == "global" and a.buffer not in written and len(nest) >= 2 and _overlaps(a, nest[-2:], filters):
            plan = plans.setdefault(tuple(x.name for x in a.axes), (nest, filters, []))
            plan[2].append(a.buffer.name)
    for nest, filters, arrays in plans.values():
        for t in TILES:
            if applies(steps := _steps(t, nest, filters, list(dict.fromkeys(arrays)))):
                yield steps, "a tile with its rim in shared memory, rows in registers: taps are read in common", GAIN


def _overlaps(a: Access, plane: Sequence[Axis], filters: Sequence[Axis]) -> bool:
    """Whether neighbours in ``plane`` read the same elements of ``a`` in different turns of short loops."""
    turns = [None if x.trip is None else evaluate(x.trip, {}) for x in filters]
    if len(filters) < 2 or any(n is None or not 1 < n <= MOST_TAPS for n in turns):
        return False
    return all(x.name in a.strides for x in (*plane, *filters))


def _steps(t: Tile, nest: Sequence[Axis], filters: Sequence[Axis], arrays: Sequence[str]) -> str:
    *layers, y, x = nest
    aside = [f"distribute{{loop={z.name} map=[block.z]}}" for z in layers]
    tile = f"tile{{loops={y.name},{x.name} sizes={t.rows},{t.cols}}}"
    maps = [f"distribute{{loop={y.name} map=[seq]}}", f"distribute{{loop={x.name} map=[{t.across}]}}",
            f"distribute{{loop={y.name} map=[{t.down}]}}"]  # fmt: skip
    staged = [f"stage-shared{{array={a} loop={x.name}_tile copy=rows}}" for a in arrays]
    outermost = filters[0].name
    turns = [(f.name, evaluate(f.trip, {})) for f in reversed(filters) if f.trip is not None]
    unrolled = [f"unroll{{loop={name} factor={n}}}" for name, n in turns]
    return " | ".join([*aside, tile, *maps, f"register-tile{{loop={outermost}}}", *staged, *unrolled])


__all__ = ["halo_tiles"]
