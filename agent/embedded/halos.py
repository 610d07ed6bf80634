"""Filters over a plane or a line: a tile with its rim in shared memory, several results in a thread's registers.

    par y, x: for dy, dx: acc += in[y + dy, x + dx] * w[dy, dx]      tiles of y and x; ``in`` with its rim staged, what
                                                                      is beyond the edges decided once an element; a
                                                                      thread sums a few rows and columns at once

Loops over the filter are unrolled, so that the rows and columns of a thread share what they read: of 25 taps a result,
eight results read 60 elements of the tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.access_nests import Access, Axis, accesses
from ktc.ir.arith.polynomial import same_value
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel

from .nest_shapes import Idea


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

LINES = (Tile(1, 512, "", "vec 4, thread.x 128"), Tile(1, 1024, "", "vec 4, thread.x 256"))
"""The same of a filter over a line: 33 instructions a result of 9 taps, over 75."""

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
        if a.space == "global" and a.buffer not in written and nest and _overlaps(a, nest, filters):
            plan = plans.setdefault(tuple(x.name for x in a.axes), (nest, filters, []))
            plan[2].append(a.buffer.name)
    for nest, filters, arrays in plans.values():
        for t in TILES if len(nest) > 1 else LINES:
            if applies(steps := _steps(t, nest, filters, list(dict.fromkeys(arrays)))):
                yield steps, "a tile with its rim in shared memory: what taps have in common is read once", GAIN


def _overlaps(a: Access, nest: Sequence[Axis], filters: Sequence[Axis]) -> bool:
    """Whether neighbours in ``nest`` read the same elements of ``a`` in different turns of short loops: each turn moves
    as far as a neighbour is, or it is not known how far."""
    turns = [None if x.trip is None else evaluate(x.trip, {}) for x in filters]
    if not filters or any(n is None or not 1 < n <= MOST_TAPS for n in turns):
        return False
    if not all(x.name in a.strides for x in (*nest[-2:], *filters)):
        return False
    steps = [s for x in nest if (s := a.strides.get(x.name)) is not None]
    moves = [a.strides[x.name] for x in filters]
    return all(m is None or any(same_value(m, s) for s in steps) for m in moves)


def _steps(t: Tile, nest: Sequence[Axis], filters: Sequence[Axis], arrays: Sequence[str]) -> str:
    *layers, x = nest
    maps = [f"distribute{{loop={x.name} map=[{t.across}]}}"]
    tile = f"tile{{loops={x.name} sizes={t.cols}}}"
    if t.down:
        *layers, y = layers
        tile = f"tile{{loops={y.name},{x.name} sizes={t.rows},{t.cols}}}"
        maps = [f"distribute{{loop={y.name} map=[seq]}}", *maps, f"distribute{{loop={y.name} map=[{t.down}]}}"]
    aside = [f"distribute{{loop={z.name} map=[block.z]}}" for z in layers]
    staged = [f"stage-shared{{array={a} loop={x.name}_tile copy=rows}}" for a in arrays]
    outermost = filters[0].name
    turns = [(f.name, evaluate(f.trip, {})) for f in reversed(filters) if f.trip is not None]
    unrolled = [f"unroll{{loop={name} factor={n}}}" for name, n in turns]
    return " | ".join([*aside, tile, *maps, f"register-tile{{loop={outermost}}}", *staged, *unrolled])


__all__ = ["halo_tiles"]
