"""Filters over a plane or a line: what neighbours read in common is read once, by a thread or by a block.

    par y, x: for dy, dx: acc += in[y + dy, x + dx] * w[dy, dx]

By a thread: a few rows and columns of results, and the window of ``in`` that they read, in its registers, loaded by
wide accesses. By a block: tiles of y and x, ``in`` with its rim in shared memory, what is beyond the edges decided once
an element; a thread sums a few rows and columns at once.

Loops over the filter are unrolled, so that the rows and columns of a thread share what they read: of 25 taps a result,
eight results read 60 elements of the tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.access_nests import Access, Axis, accesses
from ktc.ir.arith.loop_extents import upper_bounds
from ktc.ir.arith.polynomial import same_value
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import If, Par, Select
from ktc.ir.null_pointers import pointers_asked_about
from ktc.ir.walk import all_exprs, walk

from .nest_shapes import Idea
from .trials import after


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

WINDOWS = ((4, 4), (8, 1), (8, 4), (1, 4))
"""Rows and columns of results of a thread with a window of its own; of a filter along rows alone, the last. Rows of
layers are short, and of any length: those of one column come first there."""

MOST_TAPS = 11
"""Turns of a loop over a filter that are still written out, of a nest of such loops."""

MOST_IN_LINE = 33
"""The same where there is one such loop."""

GAIN = 3.0

WINDOW_GAIN = 3.5


def register_windows(raised: Kernel, applies: Callable[[str], bool]) -> Iterator[Idea]:
    """What ``applies`` of :data:`WINDOWS`, for arrays that neighbours along their rows read in common."""
    for f in _filters(raised):
        *above, x = f.nest
        if not all(a.pattern(x.name) == "unit" for a in f.reads):
            continue
        down = bool(above) and any(_moves_as(a, above[-1], loop) for a in f.reads for loop in f.loops)
        apart: str | None = None
        unrolled = "".join(f" | {step}" for step in written_out(f.loops))
        shapes = sorted(WINDOWS, key=lambda shape: shape[1]) if len(above) > 1 else WINDOWS
        for rows, cols in shapes if down else WINDOWS[-1:]:
            for arrays in dict.fromkeys((tuple(f.arrays), *((a,) for a in f.arrays))):
                steps = _in_registers(rows, cols, f, arrays)
                if apart is None and (asks := _asks_about_edges(raised, steps, x)) is not None:
                    apart = f" | split-edges{{loop={x.name}_tile}}" if asks else ""
                ways = dict.fromkeys((f"{steps}{apart or ''}{unrolled}", steps + unrolled))
                found = next((script for script in ways if applies(script)), "")
                if found:
                    yield found, "a window in a thread's registers, loaded once by wide accesses", WINDOW_GAIN
                    break


def _asks_about_edges(raised: Kernel, steps: str, x: Axis) -> bool | None:
    """Whether threads ask, after ``steps``, where the edges are when they have loaded their windows over ``x``; None
    where the steps do not apply. A kernel that asks which pointers are null stays whole: verification would have to
    come to each answer on both sides."""
    if pointers_asked_about(raised):
        return False
    done = after(raised, steps)
    if done is None:
        return None
    tiles = (s for s in walk(done.body) if isinstance(s, Par) and s.var.name == f"{x.name}_tile")
    nests = tuple(s for tile in tiles for s in tile.body if isinstance(s, Par))
    clipped = any(len(upper_bounds(s.hi)) > 1 for s in walk(nests) if isinstance(s, Par))
    chosen = any(isinstance(e, Select) for e in all_exprs(nests))
    return clipped or chosen or any(isinstance(s, If) for s in walk(nests))


def _moves_as(a: Access, neighbour: Axis, loop: Axis) -> bool:
    """Whether a turn of ``loop`` takes ``a`` as far as the next iteration of ``neighbour`` is."""
    turn, step = a.strides.get(loop.name), a.strides.get(neighbour.name)
    return turn is not None and step is not None and same_value(turn, step)


def _in_registers(rows: int, cols: int, f: Filter, arrays: Sequence[str]) -> str:
    """Steps by which a thread computes ``rows`` times ``cols`` results of ``f`` from windows of ``arrays``. Where there
    are layers, blocks of the axis that there may be most of take these."""
    *above, x = (axis.name for axis in f.nest)
    tiled, sizes, spread = [x], [cols], [f"{x}=[vec {cols}]" if cols > 1 else f"{x}=[seq]"]
    layered = len(above) > 1
    widths = "$TX:(16,32,8,64)" if layered else "$TX:(32,64,16,128)" if above else "$TX:(128,256,64,512)"
    across = f"thread.x {widths}, block.{'z' if layered else 'x'}"
    spread.append(f"{x}_tile=[{across}]")
    down = "thread.y $TY:(4,8,2,1), block.y"
    if above and rows > 1:
        tiled, sizes = [above[-1], x], [rows, cols]
        spread += [f"{above[-1]}=[unroll {rows}]", f"{above[-1]}_tile=[{down}]"]
    elif above:
        spread.append(f"{above[-1]}=[{down}]")
    spread += [f"{z}=[block.x]" for z in above[:-1]]
    tile = f"tile{{loops={','.join(tiled)} sizes={','.join(map(str, sizes))}}}"
    held = [f"register-window{{array={a} loop={x}_tile}}" for a in arrays]
    return " | ".join([tile, f"map{{{' '.join(spread)}}}", *held])


def written_out(loops: Sequence[Axis]) -> list[str]:
    """Steps that write out ``loops``, innermost first."""
    turns = [(f.name, evaluate(f.trip, {})) for f in reversed(loops) if f.trip is not None]
    return [f"unroll{{loop={name} factor={n}}}" for name, n in turns]


def halo_tiles(raised: Kernel, applies: Callable[[str], bool]) -> Iterator[Idea]:
    """What ``applies`` of :data:`TILES`, for arrays that neighbours in a plane read in common by serial loops."""
    for f in _filters(raised):
        for t in TILES if len(f.nest) > 1 else LINES:
            if applies(steps := _steps(t, f.nest, f.loops, f.arrays)):
                yield steps, "a tile with its rim in shared memory: what taps have in common is read once", GAIN


@dataclass(frozen=True)
class Filter:
    """``loops`` over taps of the ``reads`` of arrays, in the parallel loops ``nest``, outermost first."""

    nest: Sequence[Axis]
    loops: Sequence[Axis]
    reads: Sequence[Access]

    @property
    def arrays(self) -> list[str]:
        return list(dict.fromkeys(a.buffer.name for a in self.reads))


def _filters(raised: Kernel) -> list[Filter]:
    """The filters of ``raised``, by the loops around their reads."""
    found = accesses(raised)
    written = {a.buffer for a in found if a.mode != "read"}
    plans: dict[tuple[str, ...], list[Access]] = {}
    for a in found:
        nest, loops = _nest(a)
        if a.space == "global" and a.buffer not in written and nest and _overlaps(a, nest, loops):
            plans.setdefault(tuple(x.name for x in a.axes), []).append(a)
    return [Filter(*_nest(reads[0]), reads) for reads in plans.values()]


def _nest(a: Access) -> tuple[list[Axis], list[Axis]]:
    """The parallel and the serial loops around ``a``."""
    return [x for x in a.axes if x.kind == "par"], [x for x in a.axes if x.kind == "for"]


def _overlaps(a: Access, nest: Sequence[Axis], filters: Sequence[Axis]) -> bool:
    """Whether neighbours in ``nest`` read the same elements of ``a`` in different turns of short loops: each turn moves
    as far as a neighbour is, or it is not known how far."""
    turns = [None if x.trip is None else evaluate(x.trip, {}) for x in filters]
    most = MOST_TAPS if len(turns) > 1 else MOST_IN_LINE
    if not filters or any(n is None or not 1 < n <= most for n in turns):
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
    return " | ".join([*aside, tile, *maps, f"register-tile{{loop={outermost}}}", *staged, *written_out(filters)])


__all__ = ["halo_tiles", "register_windows", "written_out"]
