"""Ideas for convolutions of many channels whose blocks share what they read: tiles in shared memory.

    par k, y, x: for c, r, s: acc += in[c, y + r, x + s] * w[k, c, r, s]

A block takes some channels of a tile of pixels. Of a few input channels at a time, the pixels with their rim and the
weights of all its channels are in shared memory; a thread sums eight channels of a few rows, its columns are its
neighbours'. Of three by three taps, eight channels of four rows read 18 elements and 18 vectors of weights for 288
products. What lies beyond the edges is zero in the tile, so that nothing is asked about in between.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.kernel import Kernel
from ktc.ir.launch_limits import WARP

from .convolutions import Convolution, found_convolutions, turns
from .halos import written_out
from .nest_shapes import Idea
from .trials import counting_on_multiples

GAIN = 8.0
"""Only ranks the ideas: a third more than without tiles."""

CHANNELS = 8
"""Channels of a thread: two vectors of weights a tap."""

LANES = (32, 28, 30, 27, 26, 24, 20, 16, 14, 13, 12, 10, 9, 8, 7, 6)
"""Columns of a block, those that leave the least of a row over first, and of these the most."""

ROWS = (4, 5, 3, 2)
"""Rows of a thread, of which the first is best where none leaves anything over: 32 sums, a column of a window and the
weights of a tap leave room for two blocks of 256 threads on a unit (124 registers, nvcc 13.5, sm_90)."""

IN_LINE = (32, 64, 128)
"""Threads across a block where pixels are a line: each has columns that are as far apart, for banks' sake."""

MOST_THREADS = 256
"""Of a block."""

LEAST_THREADS = 64
"""Of a block, below which its unit is not busy."""

SHARED, ALONE = 8.0, 0.3
"""What a tile costs beside its products: an element that is copied to shared memory, as products of a block that has
one pixel and one channel; and weights that are read for each column of a thread, as its products."""

TERMS = 36
"""Products of an input channel, times channels, that a block takes at a time."""

TRIED = 2
"""Ideas proposed."""

WHY = "pixels with their rim and weights in shared memory: a thread sums several channels of several rows"


@dataclass(frozen=True)
class Tile:
    """What a block has: columns, one a thread; rows, of which ``down`` threads have ``rows`` each; and channels, of
    which ``deep`` threads have :data:`CHANNELS` each. In a line threads have ``rows`` columns."""

    columns: int
    rows: int
    down: int
    deep: int

    @property
    def threads(self) -> int:
        return self.columns * self.down * self.deep


def staged_convolutions(
    raised: Kernel, units: int, facts: Sequence[KernelFacts], applies: Callable[[str], bool]
) -> Iterator[Idea]:
    """What ``applies`` of tiles for the sizes of ``facts``, for each convolution over input channels."""
    trips = {x.name: x.trip for f in facts for x in f.loops}
    for found in found_convolutions(raised):
        if found.over is None:
            continue
        zeros = f"zero-terms{{loop={found.over.name}}} | "
        before = next((x for x in (zeros, "") if applies(f"{x}{_tiled(found, Tile(8, 2, 1, 1), 'cut', 1)}")), None)
        if before is None:
            continue
        proposed = 0
        for tile in tiles(found, trips, units):
            ways = [f"{before}{_steps(found, tile, facts, ahead)}" for ahead in (True, False)]
            able = [steps for steps in ways if applies(steps)]
            yield from ((steps, WHY, GAIN) for steps in able)
            proposed += bool(able)
            if proposed >= TRIED:
                break


def tiles(found: Convolution, trips: Mapping[str, int | None], units: int) -> list[Tile]:
    """Tiles for ``found``, those first that leave the fewest sums over and give each of the ``units`` a block; of
    these, the ones that share most."""
    columns, channels = trips.get(found.columns.name), trips.get(found.channels.name)
    rows = trips.get(found.rows.name) if found.rows else None
    layers = math.prod(trips.get(x.name) or 1 for x in found.layers)

    def cost(t: Tile) -> tuple[float, float]:
        across, down = _extents(found, t)
        sizes = (columns, across), (rows, down), (channels, CHANNELS * t.deep)
        blocks = layers * math.prod(-(-(n or size) // size) for n, size in sizes)
        work = math.prod(_over(n, size) for n, size in sizes)
        idle = max(1.0, units / max(1, blocks), LEAST_THREADS / t.threads)
        shared = 1 / (across * down) + 1 / (CHANNELS * t.deep)
        return round(work * idle * (1 + SHARED * shared) * (1 + ALONE / t.rows), 3), -t.threads

    across: Sequence[int] = IN_LINE
    down: Sequence[int] = ROWS
    if found.rows is not None:
        across = sorted(LANES, key=lambda n: (round(_over(columns, n), 2), -n))[:3]
        down = sorted(ROWS, key=lambda n: (round(_over(rows, n), 2), ROWS.index(n)))[:3]
    shares = itertools.product(across, down, (1, 2, 4) if found.rows else (1,), (1, 2, 4, 8, 16))
    return sorted((t for t in (Tile(*x) for x in shares) if WARP <= t.threads <= MOST_THREADS), key=cost)


def _extents(found: Convolution, t: Tile) -> tuple[int, int]:
    """Columns and rows of a block that has ``t``: in a line, a thread's are columns."""
    return (t.columns, t.rows * t.down) if found.rows else (t.columns * t.rows, 1)


def _over(n: int | None, size: int) -> float:
    """How many times as much as ``n`` tiles of ``size`` have."""
    return 1.0 if n is None else -(-n // size) * size / max(1, n)


def _steps(found: Convolution, t: Tile, facts: Sequence[KernelFacts], ahead: bool) -> str:
    """All steps that make ``t`` a block's; ``ahead``: while it adds up, what is next is copied."""
    assert found.over is not None
    terms = max(1, TERMS // math.prod(map(turns, found.taps)))
    terms = 1 << (terms.bit_length() - 1)
    whole = counting_on_multiples([(found.over.trip, terms)], facts)
    tail = "exact" if whole or terms == 1 else "cut"
    return whole + _tiled(found, t, tail, terms, ahead)


def _tiled(found: Convolution, t: Tile, tail: str, terms: int, ahead: bool = False) -> str:
    """Steps by which a block has ``t`` and goes through ``terms`` input channels at a time."""
    assert found.over is not None
    k, x, c = found.channels.name, found.columns.name, found.over.name
    across, down = _extents(found, t)
    sizes = {k: CHANNELS * t.deep, x: across}
    levels = {k: f"unroll {CHANNELS}, thread.z {t.deep}", x: f"thread.x {t.columns}", f"{x}_tile": "block.z"}
    if found.rows is not None:
        y = found.rows.name
        sizes = {k: CHANNELS * t.deep, y: down, x: across}
        levels |= {y: f"unroll {t.rows}, thread.y {t.down}", f"{y}_tile": "block.y"}
    elif t.rows > 1:
        levels[x] += f", unroll {t.rows}"
    layers = [layer.name for layer in found.layers]
    outer = [*layers, f"{k}_tile"]
    joint = f" | linearise{{loops={','.join(outer)}}}" if layers else ""
    levels["_".join(outer)] = "block.x"
    loop = f"{c}_tile" if tail == "exact" else f"{c}_tile.*"
    staged = "".join(
        f" | stage-shared{{array={a} loop={loop}{f' inner={k}' * (a in found.weights)}}}"
        for a in (*found.weights, *found.inputs)
    )
    padded = "".join(f" | pad-shared{{array={w}_s by=4}}" for w in found.weights)
    copied = f" | async-copy{{loop={loop}}} | multi-buffer{{loop={c}_tile stages=2}}" if ahead else ""
    unrolled = "".join(f" | {step}" for step in written_out(found.taps))
    return (
        f"tile{{loops={','.join(sizes)} sizes={','.join(map(str, sizes.values()))}}}{joint}"
        f" | map{{{' '.join(f'{name}=[{each}]' for name, each in levels.items())}}}"
        f" | tile{{loops={c} sizes={terms} tail={tail}}} | register-tile{{loop={loop}}}"
        f"{staged}{padded}{copied}{unrolled}"
    )


__all__ = ["staged_convolutions"]
