"""Planes in which neighbouring threads are a row of memory apart, on both sides or on one.

    par y, x: out[x * h + y] = f(in[x * h + y])  par x, y: the loop along which memory runs takes the threads' fast axis
                                                 and goes inside; whatever is thought of for a plane begins there
    par y, x: out[x * h + y] = in[y * w + x]     tiles of y and x: in's rows by neighbouring threads into shared memory,
                                                 out's rows by neighbouring threads out of it

With one strided side, whichever loop neighbouring threads take, one array is read or written a sector an element
otherwise. The loop that walks along what is stored gets the threads' fast axis; what is loaded along the other one is
staged, padded by a column so that neither side of the tile meets a bank twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.access_nests import Access, Axis, accesses
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Par
from ktc.ir.walk import walk
from ktc.passes.core.places import place_of

from .nest_shapes import Idea
from .trials import after


@dataclass(frozen=True)
class Tile:
    """Elements of a tile along what is stored and along what is loaded; how threads share the first if a store is one
    element, and the second; lanes of a copy."""

    stored: int
    loaded: int
    fast: str
    slow: str
    vec: int


TILES = (
    Tile(64, 64, "vec 2, thread.x 32", "thread.y 8, unroll 8", 4),
    Tile(64, 64, "thread.x 32, unroll 2", "thread.y 16, unroll 4", 4),
    Tile(32, 32, "vec 4, thread.x 8", "thread.y 32", 4),
    Tile(32, 32, "thread.x 32", "thread.y 8, unroll 4", 1),
)
"""As measured on transposes of 512 to 8192 rows (kernels/EXPERT.md); the last asks nothing of alignment."""

LEVELS = "[block.z]", "[thread.y 8, block.y]", "[thread.x 32, block.x]"
"""Where the loops across memory and the one along it begin: the last of these, where there are fewer."""

MOST_INSIDE = len(LEVELS) - 1
"""Loops that one along memory goes inside of."""

GAIN = 3.0
"""Whole sectors on both sides, over one that takes a sector an element."""


def turned(raised: Kernel, applies: Callable[[str], bool]) -> Iterator[Idea]:
    """What ``applies`` of :data:`TILES`, for each pair of parallel loops that walk along what is stored and loaded."""
    found = [a for a in accesses(raised) if a.space == "global"]
    for store in (a for a in found if a.mode == "write"):
        pair = [x for x in store.axes if x.kind == "par"][-2:]
        along = [x for x in pair if _walks(store, x)]
        if len(pair) < 2 or len(along) != 1:
            continue
        across = pair[1 - pair.index(along[0])]
        arrays = _loaded(found, across, along[0])
        for t in TILES if arrays and store.width in (1, 2, 4) else ():
            steps = _steps(t, pair, along[0], arrays, store.width)
            if applies(steps):
                yield steps, "a tile through shared memory: whole sectors are read and written", GAIN


def _walks(a: Access, x: Axis) -> bool:
    """Whether neighbouring iterations of ``x`` make one longer access of ``a``."""
    stride = a.strides.get(x.name)
    return stride is not None and evaluate(stride, {}) == a.width


def _loaded(found: Sequence[Access], across: Axis, along: Axis) -> list[str]:
    """Arrays that are read along ``across`` and, within ``along``, with strides."""
    turned = [
        a.buffer.name for a in found if a.mode == "read" and _walks(a, across) and a.pattern(along.name) == "strided"
    ]
    return list(dict.fromkeys(turned))


def _steps(t: Tile, nest: Sequence[Axis], along: Axis, arrays: Sequence[str], width: int | object) -> str:
    lanes = width if isinstance(width, int) else 1
    sizes = {x.name: t.stored // lanes if x is along else t.loaded for x in nest}
    fast = f"thread.x {t.stored // lanes}" if lanes > 1 else t.fast
    slow = next(x.name for x in nest if x is not along)
    outer, inner = (x.name for x in nest)
    vec = f" vec={t.vec}" if t.vec > 1 else ""
    staged = "".join(
        f" | stage-shared{{array={a} loop={inner}_tile{vec}}} | pad-shared{{array={a}_s by=1}}" for a in arrays
    )
    return (
        f"tile{{loops={outer},{inner} sizes={sizes[outer]},{sizes[inner]}}}"
        f" | distribute{{loop={along.name} map=[seq]}} | distribute{{loop={slow} map=[{t.slow}]}}"
        f" | distribute{{loop={along.name} map=[{fast}]}}{staged}"
    )


def along_memory(raised: Kernel) -> Iterator[tuple[str, Kernel]]:
    """The steps that turn the axes of a plane or a volume, with a bar behind them, and ``raised`` after them: a loop
    along which memory runs goes inside of the loops in it, the innermost of which has the threads' fast axis."""
    found = [a for a in accesses(raised) if a.space == "global"]
    for along in (s for s in walk(raised.body) if isinstance(s, Par)):
        inside = _nested(along)
        if not inside or len(inside) > MOST_INSIDE or not _fast(inside[-1]) or _fast(along):
            continue
        if not _runs_along(found, along, inside[-1]):
            continue
        name = place_of(raised, along)
        order = [*(place_of(raised, s) for s in inside), name]
        inward = " | ".join([f"interchange{{outer={name}}}"] * len(inside))
        levels = " ".join(f"{x}={level}" for x, level in zip(order, LEVELS[-len(order) :]))
        steps = f"{inward} | map{{{levels}}}"
        done = after(raised, steps)
        if done is not None:
            yield f"{steps} | ", done


def _nested(outer: Par) -> list[Par]:
    """The parallel loops inside of ``outer`` and right inside of each other, outermost first."""
    out: list[Par] = []
    while len(outer.body) == 1 and isinstance(inner := outer.body[0], Par):
        out.append(inner)
        outer = inner
    return out


def _fast(s: Par) -> bool:
    return any(lv.kind == "thread" and lv.axis == "x" for lv in s.dist)


def _runs_along(found: Sequence[Access], outer: Par, inner: Par) -> bool:
    """Whether accesses that both move run along ``outer``, and none along ``inner``: what one of them moves is read a
    row or a column at a time, which is little beside the plane."""
    inside = [a for a in found if any(x.stmt is inner for x in a.axes)]
    mine = [a for a in inside if a.moves(outer.var.name) and a.moves(inner.var.name)]
    unit = [[a for a in mine if a.pattern(s.var.name) == "unit"] for s in (outer, inner)]
    return bool(unit[0]) and not unit[1]


__all__ = ["along_memory", "turned"]
