"""Ideas for convolutions of many channels: a thread sums several channels of several rows.

    par k, y, x: for c, r, s: acc += in[c, y + r, x + s] * w[k, c, r, s]

Rows of a thread have most of the rows that they read in common, and its channels all of them; its columns are its
neighbours'. With the loops over taps written out, eight rows of eight channels take 30 elements of ``in`` and 72
weights, the same for all lanes, for 576 products, where a thread of one result loads two elements a product. What asks
about edges (padding, and tiles that are not whole) is asked without a branch, and of weights once for all rows, so that
loads of all taps are under way at once; or where the edges are alone. That tiles are whole is counted on where each
size has whole ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ktc.ir.analysis.access_nests import Access, Axis, accesses
from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel

from .halos import written_out
from .nest_shapes import Idea
from .trials import counting_on_multiples

GAIN = 5.0
"""As of products that are tiled: it only ranks the ideas."""

SHAPES = ((8, 8), (16, 4), (8, 4), (4, 8), (4, 4), (8, 2), (4, 2), (2, 4))
"""Channels and rows of a thread, which has the registers for no more than 64 sums; what shares most first."""

TRIED = 5
"""Ideas proposed."""

CHOOSING = "if-convert"
"""What threads do in the place of branches; of the first shape branches are proposed as well."""

BUSY = 512
"""Threads of a unit from which on sums that wait for loads leave others to work on."""

MOST_LAYERS = 2
"""Loops around those of a convolution: over images, and over groups of channels."""

MOST_TAPS = 7
"""Turns of a loop over taps that are still written out."""

WHY = "a thread sums several channels of several rows, which read the same"


@dataclass(frozen=True)
class Convolution:
    """Parallel loops over ``layers``, channels, and rows (None in a line) and columns of pixels; ``taps``: serial loops
    of known lengths, outermost first, and what they are gone through for: input channels, ``over``, if there are any.
    ``inputs``, ``weights``: the arrays that are read along pixels, and along channels."""

    layers: Sequence[Axis]
    channels: Axis
    rows: Axis | None
    columns: Axis
    taps: Sequence[Axis]
    over: Axis | None = None
    inputs: Sequence[str] = ()
    weights: Sequence[str] = ()


def convolutions(
    raised: Kernel, units: int, facts: Sequence[KernelFacts], applies: Callable[[str], bool]
) -> Iterator[Idea]:
    """What ``applies`` of :data:`SHAPES`, for each convolution, those first that leave each of the ``units`` enough
    threads: with its edges in code of their own, and choices where taps are still asked about, or as it is."""
    trips = {x.name: x.trip for f in facts for x in f.loops}
    for found in found_convolutions(raised):
        if len(found.layers) > 1:
            continue  # there is an axis of blocks for one
        proposed = 0
        idle = {(channels, rows): _idle(found, channels, rows, units, trips) for channels, rows in SHAPES}
        for channels, rows in sorted(SHAPES, key=idle.__getitem__):
            tiles = _whole_tiles(found, channels, rows, facts, trips)
            able = (steps for asked in _edges(found) if applies(steps := f"{tiles}{asked}"))
            for steps in able:
                yield steps, WHY, GAIN
                proposed += 1
                if proposed > 1 or CHOOSING not in steps:
                    break
            if proposed >= TRIED:
                break


def _edges(found: Convolution) -> list[str]:
    """How a thread asks where the edges are, best first: without a branch, of rows in code of their own or not."""
    unrolled = "".join(f" | {step}" for step in written_out(found.taps))
    apart = f" | split-edges{{loop={(found.rows or found.columns).name}_tile}}"
    chosen = f" | {CHOOSING}{{loop={found.taps[-1].name} loads=yes}}"
    return [f"{asked}{unrolled}" for asked in (chosen, apart + chosen, apart, "")]


def _idle(
    found: Convolution, channels: int, rows: int, units: int, trips: Mapping[str, int | None]
) -> tuple[float, float]:
    """How many times too few threads there are for ``units``, at most enough; and what a product loads."""
    tiled = {found.channels.name: channels, (found.rows or found.columns).name: rows}
    loops = [*found.layers, found.channels, *((found.rows,) if found.rows else ()), found.columns]
    known = [(x, n) for x in loops if (n := trips.get(x.name)) is not None]
    threads = math.prod(-(-n // tiled.get(x.name, 1)) for x, n in known)
    return max(1.0, units * BUSY / max(1, threads)), 1 / channels + 1 / rows


def _without_rest(rows: int, trip: int | None) -> int:
    """A number of rows near to ``rows`` that leaves no tile at the end which is not whole, if there is one."""
    exact = (n for n in range(rows, rows // 2, -1) if trip is not None and trip % n == 0)
    return next(exact, rows)


def _whole_tiles(
    found: Convolution,
    channels: int,
    rows: int,
    facts: Sequence[KernelFacts],
    trips: Mapping[str, int | None],
) -> str:
    """Steps by which a thread has ``channels`` times about ``rows`` sums, of tiles that are whole as far as may be."""
    along = found.rows or found.columns
    rows = _without_rest(rows, trips.get(along.name))
    whole = counting_on_multiples([(found.channels.trip, channels), (along.trip, rows)], facts)
    return whole + _tiles(found, channels, rows)


def _tiles(found: Convolution, channels: int, rows: int) -> str:
    """Steps by which a thread has ``channels`` times ``rows`` sums."""
    k, x = found.channels.name, found.columns.name
    tiled, spread = {k: channels}, [f"{k}=[unroll {channels}]", f"{k}_tile=[block.z]"]
    if found.rows is not None:
        y = found.rows.name
        tiled |= {y: rows, x: 1}
        spread += [f"{y}=[unroll {rows}]", f"{y}_tile=[thread.y $TY:(2,1,4,8), block.y]", f"{x}=[seq]"]
        spread.append(f"{x}_tile=[thread.x $TX:(32,64,16,128), seq]")
    else:
        tiled |= {x: rows}
        spread += [f"{x}=[unroll {rows}]", f"{x}_tile=[thread.x $TX:(64,32,128,256), block.y]"]
    spread += [f"{layer.name}=[block.x]" for layer in found.layers]
    tile = f"tile{{loops={','.join(tiled)} sizes={','.join(map(str, tiled.values()))}}}"
    return f"{tile} | map{{{' '.join(spread)}}}"


def found_convolutions(raised: Kernel) -> Iterator[Convolution]:
    """The convolutions of ``raised``, by the loops around what they read."""
    seen = accesses(raised)
    written = {a.buffer for a in seen if a.mode != "read"}
    nests: dict[tuple[str, ...], list[Access]] = {}
    for a in seen:
        if a.space == "global" and a.buffer not in written:
            nests.setdefault(tuple(x.name for x in a.axes), []).append(a)
    for reads in nests.values():
        axes = reads[0].axes
        over, taps = [x for x in axes if x.kind == "par"], _taps(axes)
        for depth in (3, 2):
            found = _of(over, taps, depth)
            arrays = _convolved(found, reads) if found is not None else None
            if found is not None and arrays is not None:
                yield replace(found, over=_gone_over(axes, taps), inputs=arrays[0], weights=arrays[1])
                break


def _of(over: Sequence[Axis], taps: Sequence[Axis], depth: int) -> Convolution | None:
    """The innermost ``depth`` parallel loops as those of a convolution in a plane (3) or a line (2)."""
    if not depth <= len(over) <= depth + MOST_LAYERS or not taps:
        return None
    channels, *rows, columns = over[-depth:]
    return Convolution(over[:-depth], channels, rows[0] if rows else None, columns, taps)


def _taps(axes: Sequence[Axis]) -> list[Axis]:
    """The innermost loops as far as each has a few turns, known ones."""
    out: list[Axis] = []
    for x in reversed(axes):
        if x.kind != "for" or not 1 <= turns(x) <= MOST_TAPS:
            break
        out.insert(0, x)
    return out if any(turns(x) > 1 for x in out) else []


def turns(x: Axis) -> int:
    """How often a loop goes round; 0 where that is not known."""
    turns = None if x.trip is None else evaluate(x.trip, {})
    return int(turns or 0)


def _gone_over(axes: Sequence[Axis], taps: Sequence[Axis]) -> Axis | None:
    """The one serial loop that ``taps`` are in, if there is one."""
    serial = [x for x in axes if x.kind == "for" and x not in taps]
    return serial[0] if len(serial) == 1 else None


def _convolved(found: Convolution, reads: Sequence[Access]) -> tuple[list[str], list[str]] | None:
    """The arrays that are read along pixels and taps for all channels alike, and those along channels for all pixels
    alike; None if there are none of either kind."""
    k, x, y = found.channels.name, found.columns.name, found.rows
    moving = [t.name for t in found.taps if turns(t) > 1]

    def depends(a: Access, name: str) -> bool:
        return a.pattern(name) != "broadcast"

    def is_input(a: Access) -> bool:
        pixels = depends(a, x) and (y is None or depends(a, y.name))
        return pixels and not depends(a, k) and any(depends(a, t) for t in moving)

    def is_weight(a: Access) -> bool:
        return depends(a, k) and not depends(a, x) and (y is None or not depends(a, y.name))

    inputs = list(dict.fromkeys(a.buffer.name for a in reads if is_input(a)))
    weights = list(dict.fromkeys(a.buffer.name for a in reads if is_weight(a)))
    return (inputs, weights) if inputs and weights else None


__all__ = ["Convolution", "convolutions", "found_convolutions", "turns"]
