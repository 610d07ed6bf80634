"""What an expert would try first where two or three loops of a plane or a volume share what they read: stencils,
copies with a strided side, contractions."""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.analysis.planner_facts import LoopFacts

from .nest_shapes import Idea, Shape, block_axis, has

REUSE = 1.25
"""Requests per distinct byte above which neighbouring iterations share loads: worth keeping them in registers."""


def plane_reuse(s: Shape, units: int) -> Iterator[Idea]:
    """A two-dimensional stencil: neighbours share loads, so a thread takes several of them."""
    y, x = _plane(s)
    rows = _spread(y, "thread.y $TY")
    cols = _spread(x, "thread.x $TX")
    down = _spread(y, "unroll $UY, thread.y $TY")
    across = _spread(x, "thread.x $TX, unroll $UX")
    wide = _spread(x, "vec $V, thread.x $TX")
    rows_down = (
        (f"{down} | {cols}", "rows stacked in a thread share their neighbours' loads", 1.3),
        (f"{down} | {wide}", "stacked rows and wide accesses", 1.3),
    )
    layers = [idea for z in _layers(s) for idea in _over_layers(s, z, y, x, rows, cols, wide)]
    walked = any(not has(z, "block") for z in _layers(s))  # more threads wait for memory at a time
    yield from (*layers, *rows_down) if walked else (*rows_down, *layers)
    yield f"{rows} | {cols}", "block shape", 1.1
    yield f"{rows} | {across}", "several columns a thread", 1.1


def _over_layers(s: Shape, z: LoopFacts, y: LoopFacts, x: LoopFacts, rows: str, cols: str, wide: str) -> Iterator[Idea]:
    """What blocks that share out the layers of a volume do with them. ``rows``, ``cols``, ``wide``: steps."""
    yield _stacked(z.name, y.name, x.name), STACKED, 1.35
    layers = f"distribute{{loop={z.name} map=[unroll $UZ:(2,4,8), block.{_axis_of(s, z)}]}}"
    yield f"{layers} | {rows} | {cols}", "layers stacked in a thread share their neighbours' loads", 1.3
    yield f"{layers} | {rows} | {wide}", "stacked layers and wide accesses", 1.3


STACKED = "rows and layers stacked in a thread share their neighbours' loads, whole stacks without conditions"


def _stacked(z: str, y: str, x: str) -> str:
    """Steps by which a thread takes rows of several layers of a volume, its warp's rows aligned."""
    apart = " | ".join(f"distribute{{loop={loop} map=[block.{axis}]}}" for loop, axis in ((z, "z"), (y, "y")))
    across = f"distribute{{loop={x} map=[thread.x $TX:(32,64,128,256), block.x] align=32}}"
    down = f"distribute{{loop={y} map=[unroll $UY:(2,4), thread.y $TY:(1,2,4), block.y] tail=cut}}"
    return f"{apart} | {across} | {down} | distribute{{loop={z} map=[unroll $UZ:(2,4), block.z] tail=cut}}"


def neighbouring_rows(s: Shape, units: int) -> Iterator[Idea]:
    """Rows that share loads with the rows beside them, each a block's: a block of several rows reads what they share
    once, and a thread with several of them keeps it in registers."""
    x, y = s.cols[0].name, s.rows[-1].name
    threads, lanes = "thread.y $TY:(2,4,8), block.y", "thread.x $TX:(32,64,128), block.x"
    wide = "vec $V, thread.x $TX:(32,64), block.x"
    if len(s.rows) == 1:
        several, stacked, what = f"{y}=[{threads}]", f"{y}=[unroll $UY, {threads}]", "rows"
    else:
        z, what = s.rows[0].name, "layers"
        yield _stacked(z, y, x), STACKED, 2.1
        several, stacked = f"{z}=[block.z] {y}=[{threads}]", f"{z}=[unroll $UZ:(2,4,8), block.z] {y}=[{threads}]"
    yield f"map{{{stacked} {x}=[{lanes}]}}", f"{what} stacked in a thread share their neighbours' loads", 2.0
    yield f"map{{{stacked} {x}=[{wide}]}}", f"stacked {what} and wide accesses", 2.0
    yield f"map{{{several} {x}=[{lanes}]}}", "several rows a block", 1.6


def plane_transposed(s: Shape, units: int) -> Iterator[Idea]:
    """One side of the copy is strided whichever loop is fastest: several elements a thread, along either side."""
    y, x = _plane(s)
    aside = f"distribute{{loop={y.name} map=[block.z]}}"  # no two loops may hold one axis, not even between steps
    swapped = f"distribute{{loop={y.name} map=[thread.x $TX, block.x]}}"
    across = f"distribute{{loop={x.name} map=[unroll $UX, thread.y $TY, block.y]}}"
    down = _spread(y, "unroll $UY, thread.y $TY")
    cols = _spread(x, "thread.x $TX")
    yield f"{down} | {cols}", "several rows a thread: strided accesses share cache lines", 1.5
    yield f"{aside} | {across} | {swapped}", "the other side contiguous, several elements a thread", 1.5
    rows = _spread(y, "thread.y $TY")
    yield f"{rows} | {cols}", "block shape", 1.2


def plane_product(s: Shape, units: int) -> Iterator[Idea]:
    """A contraction per element: register tiles reuse each loaded value across the tile."""
    y, x = _plane(s)
    down = _spread(y, "unroll $TM, thread.y $TY")
    wide = _spread(x, "vec $V, thread.x $TX")
    across = _spread(x, "thread.x $TX, unroll $TN")
    k = f" | unroll{{loop={s.serial[-1].name} factor=$UK}}" if s.serial else ""
    yield f"{down} | {across}", "a register tile: TM*TN products from TM+TN loads", 3.0
    yield f"{down} | {wide}", "a register tile with wide accesses along the row", 3.0
    if k:
        yield f"{down} | {wide}{k}", "and the contraction unrolled", 3.2


def _spread(x: LoopFacts, levels: str) -> str:
    """The step that gives ``levels`` to a loop within its own axis of blocks."""
    return f"distribute{{loop={x.name} map=[{levels}, block.{block_axis(x)}]}}"


def _plane(s: Shape) -> tuple[LoopFacts, LoopFacts]:
    """(rows, columns) of a plane, or of a volume's planes: the loops with thread.y and thread.x, else the innermost."""
    x = next((c for c in s.cols if "thread.x" in c.levels), s.cols[-1])
    others = [c for c in s.cols if c.name != x.name]
    return next((c for c in others if "thread.y" in c.levels), others[-1]), x


def _layers(s: Shape) -> list[LoopFacts]:
    """The loop over a volume's planes, where threads are spread over it too, or may be."""
    names = {x.name for x in _plane(s)}
    walked = [c for c in s.serial if c.kind == "par" and c.depth == len(names)]
    return [*(c for c in s.cols if c.name not in names and has(c, "block")), *walked][:1]


def _axis_of(s: Shape, z: LoopFacts) -> str:
    """The axis of blocks of the loop over planes, or one that no other loop has."""
    return block_axis(z) if has(z, "block") else s.free_block_axis


def is_product(s: Shape) -> bool:
    return s.is_plane and any(c.kind != "par" for c in s.serial) and s.facts.reuse > 2


def is_transposed(s: Shape) -> bool:
    return s.is_plane and not s.serial and any(c.unit and c.strided for c in s.cols) and s.facts.reuse < REUSE


def is_stencil_of_rows(s: Shape) -> bool:
    one = len(s.rows) <= 2 and len(s.cols) == 1
    return s.is_rows and one and not s.serial and not s.has_reduction and s.facts.reuse > REUSE


__all__ = [
    "is_product", "is_stencil_of_rows", "is_transposed", "neighbouring_rows", "plane_product", "plane_reuse",
    "plane_transposed",
]  # fmt: skip
