"""What an expert would try first, as a table from shapes of loop nests to scripts.

Each row of :data:`RULES` says when it applies and which scripts follow, in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from .nest_shapes import RESIDENT, Idea, Shape, block_axis, has, vectors
from .plane_ideas import (
    is_product,
    is_stencil_of_rows,
    is_transposed,
    neighbouring_rows,
    plane_product,
    plane_reuse,
    plane_transposed,
)
from .whole_rows import Whole, whole_row


def flat_stream(s: Shape, units: int) -> Iterator[Idea]:
    """One long loop: wide accesses, then several of them in flight, then fewer blocks that walk the grid."""
    i, axis = s.cols[0].name, block_axis(s.cols[0])
    vec, _ = vectors(s)
    wide = "wide accesses move more bytes per instruction" if vec else "block shape"
    trip = s.cols[0].trip
    if trip is not None and s.serial and trip < units * RESIDENT:
        small = f"distribute{{loop={i} map=[thread.x $T:(32,64,128), block.{axis}]}}"
        yield small, "fewer elements than threads fit on the device: small blocks, so that every unit has some", 1.5
    yield f"distribute{{loop={i} map=[{vec}thread.x $T, block.{axis}]}}", wide, 1.3
    yield (
        f"distribute{{loop={i} map=[{vec}thread.x $T, unroll $U, block.{axis}]}}",
        f"{wide}, several in flight",
        1.35,
    )
    blocks = ",".join(str(units * k) for k in (1, 2, 4, 8))
    grid = f"distribute{{loop={i} map=[{vec}thread.x $T, block.{axis} $B:{blocks}, seq]}}"
    yield grid, "a grid-stride loop pays for start-up once", 1.2


def at_most(s: Shape, product: str) -> str:
    """A constraint that leaves less than half of the threads' positions behind a row's end ('' if its length is open).

    Knob tuples that mostly idle are legal but a waste of measurements.
    """
    trip = max((c.trip or 0 for c in s.cols), default=0)
    return f" where {product} < {2 * trip}" if trip else ""


def at_least(s: Shape, product: str) -> str:
    """A constraint that spreads a short row over enough threads to need few rounds ('' if its length is open)."""
    trip = max((c.trip or 0 for c in s.cols), default=0)
    return f" where 4 * {product} >= {trip}" if trip else ""


def row_stream(s: Shape, units: int) -> Iterator[Idea]:
    """Independent rows without a reduction: a block per row, or rows cut over blocks when there are few of them."""
    i, free = s.col_names[0], s.free_block_axis
    vec, v = vectors(s)
    fits = at_most(s, f"{v}T * U")
    split = f"distribute{{loop={i} map=[{vec}thread.x $T, unroll $U, block.{free}]}}{fits}" if free else ""
    rows = 1
    for r in s.rows:
        rows *= r.trip or 1
    if rows >= MANY_ROWS * units and all(c.trip is None for c in s.cols):
        inner = s.rows[-1]
        side = f"{inner.name}=[thread.y $ROWS:(16,32,8,4), block.{block_axis(inner)}]"
        lanes = " ".join(f"{c}=[thread.x $LANES:(8,16,32,4), seq]" for c in s.col_names)
        yield (
            f"map{{{side} {lanes}}}",
            "many rows whose lengths the data say: several a block, on lanes of their own",
            2.0,
        )
    if free and not s.short and rows < 4 * units:
        yield split, "few rows: cut each over several blocks so that every unit has work", 2.0
        split = ""
    if not s.short:
        yield (
            f"distribute{{loop={i} map=[{vec}thread.x $T, unroll $U]}}{fits}",
            "the whole row in flight at once",
            1.7,
        )
        yield (
            f"distribute{{loop={i} map=[{vec}thread.x $T, unroll $U, seq]}}{fits}",
            "several accesses in flight",
            1.7,
        )
        yield f"distribute{{loop={i} map=[{vec}thread.x $T, seq]}}", "wide accesses along the row", 1.6
    if split:
        yield split, "rows cut over blocks: equal work for every unit", 1.6


def between(s: Shape) -> tuple[str, ...]:
    """Parallel loops that each thread goes through alone between the rows and the columns: heads of a token."""
    own = {x.name: x for x in s.facts.loops}
    stems = {own[c.parent].stem for c in s.facts.loops if c.stem in {x.stem for x in s.cols} and c.parent in own}
    alone = (x for x in s.serial if x.kind == "par" and set(x.levels) <= {"seq"})
    return tuple(dict.fromkeys(x.name for x in alone if x.stem in stems))


def rows_of_rows(s: Shape, units: int) -> Iterator[Idea]:
    """Rows of short rows: these side by side in a block, and shared out over several blocks where there are few of the
    outer ones. Loops side by side may have different numbers of them, so how many blocks there are is fixed."""
    vec, _ = vectors(s)
    rows = math.prod(r.trip or 1 for r in s.rows)
    parts = "$P:(1,2,4)" if rows >= MANY_ROWS * units else "$P:(4,8,2,1)"
    inner = f"[{vec}thread.x $T:(16,32,8,64), seq]"
    outer = f"[thread.y $ROWS:(8,4,16,2), block.{s.free_block_axis} {parts}, seq]"
    each = " ".join([*(f"{c}={inner}" for c in s.col_names), *(f"{m}={outer}" for m in between(s))])
    yield f"map{{{each}}}", "short rows side by side, wide accesses along them, blocks share those of one row", 2.0


MANY_ROWS = 8
"""Blocks for each unit of the device, from which on there are enough of them."""


def short_rows(s: Shape, units: int) -> Iterator[Idea]:
    """Rows shorter than a block: several rows side by side.

    Which rows lie next to each other in memory is for the measurement to tell: each loop gets its turn as the one that
    neighbouring threads and blocks share.
    """
    vec, v = vectors(s)
    fits = at_most(s, f"{v}LANES") + at_least(s, f"{v}LANES")
    lanes = "$LANES:(2,4,8,16,32,64,128)"
    whole = " ".join(f"{c}=[{vec}thread.x {lanes}]" for c in s.col_names)
    for r in reversed(s.rows) if len(s.rows) == 2 else ():
        other = next(o for o in s.rows if o.name != r.name)
        axes = {s.rows[0].name: "x", s.rows[1].name: "y"}  # of which the first may have more than 65535 blocks
        for own, said in (("", "one access a thread"), ("unroll $U:(2,4), ", "several accesses a thread in flight")):
            yield (
                f"map{{{other.name}=[block.{axes[other.name]}] {r.name}=[{own}thread.y $ROWS, block.{axes[r.name]}]"
                f" {whole}}}{fits}",
                f"several {r.name} a block, {said}",
                2.5,
            )
    if s.has_reduction:
        yield from _rows_of_warps(s, bool(vec))
    inner = s.rows[-1].name
    rows = f"rows-mapping{{loop={inner} rows=$ROWS lanes=$LANES}}"
    wide = " | ".join(f"vectorize{{loop={c} width=$V}}" for c in s.col_names)
    if vec:
        yield f"{rows} | {wide}{fits}", f"several {inner} a block, wide accesses", 2.0
    yield f"{rows}{at_most(s, 'LANES')}", f"several {inner} a block", 1.5
    if not s.has_reduction:
        yield from _rows_of_warps(s, bool(vec))


LANES = (4, 8, 16, 32)
"""Threads of a warp that have a row to themselves."""


def _rows_of_warps(s: Shape, wide: bool) -> Iterator[Idea]:
    """Each row, whole, in the registers of a part of a warp: sums need no shared memory and no barrier."""
    trip = max(c.trip or 0 for c in s.cols)
    held = whole_row(trip, s.facts.elem_bytes, wide, choices=LANES)
    if len(s.rows) != 1 or held is None or held.long:
        return
    row = s.rows[0]
    beside = f"distribute{{loop={row.name} map=[thread.y $ROWS:(2,4,8,16), block.{block_axis(row)}]}}"
    lanes = f"{held.threads}:({','.join(map(str, LANES))})"
    each = _each(s, f"[{'vec $V, ' if wide else ''}{lanes}, {held.unroll}]")
    yield f"{beside} | {each}{held.where}", f"several {row.name} a block, each in the registers of a warp", 2.5


def row_reduction(s: Shape, units: int) -> Iterator[Idea]:
    """Sweeps over a row with a reduction between them: read once, keep the row."""
    vec, _ = vectors(s)
    whole = _whole(s, bool(vec))
    if whole is None or whole.long:
        yield from _long_row(s, whole)
        return
    maps = {"registers": f"[{vec}{whole.threads}, {whole.unroll}]", "shared": f"[{vec}thread.x $T, seq]"}
    fits = whole.where
    each = {k: _each(s, m) for k, m in maps.items()}
    loop = s.col_names[0]
    if _is_swept_again(s):
        keep = f"{each['registers']} | row-cache{{loop={loop} where=registers}}{fits}"
        yield keep, "each thread keeps its part of the row in registers between the sweeps", 2.0
        ahead = f"{each['registers']} | row-cache{{loop={loop} keep=loaded ahead=yes}}{fits}"
        yield ahead, "what the row's last sweep reads is loaded before the first barrier", 2.0
        several = f"row-cache{{loop={loop} keep=loaded}} | launch-bounds{{blocks=$M:(1,2,3)}}"
        packed = f"{each['registers']} | {several}{fits}"
        yield packed, "kept as loaded, in as few registers as let several blocks share a unit", 2.0
        keep = f"{each['shared']} | row-cache{{loop={loop} where=shared}}"
        yield keep, "long rows: kept in shared memory between the sweeps", 1.6
    yield each["registers"] + fits, "wide accesses, the row in flight at once", 1.5
    yield each["shared"], "wide accesses, any row length", 1.4


def _long_row(s: Shape, whole: Whole | None) -> Iterator[Idea]:
    """Rows of tens of thousands of elements: in the registers of a whole unit, or in its shared memory; else read by
    each sweep, several accesses in flight. Rounds that are whole ask nothing of their elements, in code of their
    own."""
    vec, _ = vectors(s)
    loop = s.col_names[0]
    if _is_swept_again(s):
        if whole is not None:
            for tail, after, why in IN_REGISTERS:
                held = _each(s, f"[{vec}{whole.threads}, {whole.unroll}]", tail)
                keep = f"{held} | row-cache{{loop={loop} keep=loaded}}{after}{whole.where}"
                yield keep, f"a long row in the registers of a block's threads, read once{why}", 2.0
        rounds = _each(s, f"[{vec}thread.x $T:(512,1024), unroll $U:(4,8), seq]", " tail=cut")
        shared = f"{rounds} | row-cache{{loop={loop} keep=loaded where=shared}}"
        yield shared, "a long row in shared memory between the sweeps, read once", 1.8
    rounds = _each(s, f"[{vec}thread.x $T, unroll $U:(2,4,8), seq]", " tail=cut")
    yield rounds, "several accesses in flight, any row length", 1.5


IN_REGISTERS = (
    ("", " | fast-math", ", and cheaper functions, which leave more of them for the row"),
    ("", "", ""),
    (" tail=cut", "", ", whole rounds without conditions"),
)
"""How a long row is held in registers (what becomes of the last round, steps after it, why), best first: with the
range reduction of an accurate exponential beside fifty values a thread the compiler spills some of them (1.75x the time
on an H100); whole rounds of their own are twice the code."""


def _whole(s: Shape, wide: bool) -> Whole | None:
    """What takes a block's threads through a whole row, of any length where it is not known."""
    trip = max((c.trip or 0 for c in s.cols), default=0)
    if not trip:
        return Whole("thread.x $T", "unroll $U", "", long=False)
    return whole_row(trip, s.facts.elem_bytes, wide)


def _is_swept_again(s: Shape) -> bool:
    """Whether something goes several times through the elements of a row."""
    return len(s.cols) > len({c.parent for c in s.cols})


def _each(s: Shape, levels: str, tail: str = "") -> str:
    """Steps that give ``levels`` to every loop over columns."""
    return " | ".join(f"distribute{{loop={c} map={levels}{tail}}}" for c in s.col_names)


def packed_elements(s: Shape, wide: str) -> Iterator[Idea]:
    """The eight numbers of a packed word, the four of a counter: ``wide`` makes one access of what was one after
    another in a thread, whatever its block's shape."""
    axes = {c.name: (a, block_axis(c)) for c in s.cols if has(c, "block") for a in "xyz" if f"thread.{a}" in c.levels}
    blocks = [f"distribute{{loop={n} map=[thread.{a} $T{a.upper()}, block.{b}]}}" for n, (a, b) in axes.items()]
    yield " | ".join((wide, *blocks)), "neighbouring elements in one access, block shape", 1.6
    yield wide, "neighbouring elements in one access", 1.5


LONG, CONTRACTION = "one long loop", "contraction over a plane"

RULES: tuple[tuple[str, Callable[[Shape], bool], Callable[[Shape, int], Iterator[Idea]]], ...] = (
    (CONTRACTION, is_product, plane_product),
    ("plane with a strided side", is_transposed, plane_transposed),
    ("plane with shared neighbours", lambda s: s.is_plane, plane_reuse),
    ("rows with shared neighbours", is_stencil_of_rows, neighbouring_rows),
    ("rows of rows", lambda s: s.is_rows and bool(s.free_block_axis) and bool(between(s)), rows_of_rows),
    ("short rows", lambda s: s.is_rows and s.short, short_rows),
    ("row reduction", lambda s: s.is_rows and s.has_reduction, row_reduction),
    ("rows", lambda s: s.is_rows and not s.has_reduction, row_stream),
    (LONG, lambda s: s.is_flat, flat_stream),
)
"""(what it is called in reports, when it applies, what it proposes). Every row that applies contributes, in order."""
