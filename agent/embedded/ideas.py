"""What an expert would try first, as a table from shapes of loop nests to scripts.

It looks at loops, access patterns and counts, never at names. Each row of :data:`RULES` says when it applies and which
scripts follow, in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ktc.ir.analysis.planner_facts import KernelFacts, LoopFacts

from .whole_rows import Whole, whole_row

SHORT_ROW = 1024
"""Elements; below it one block per row leaves threads idle or launches too many blocks."""

RESIDENT = 2048
"""Threads that a compute unit of today's devices holds at once."""

REUSE = 1.25
"""Requests per distinct byte above which neighbouring iterations share loads: worth keeping them in registers."""


@dataclass(frozen=True)
class Shape:
    """The loop nest as a planner sees it: ``rows`` are spread over blocks alone, ``cols`` over threads."""

    rows: tuple[LoopFacts, ...]
    cols: tuple[LoopFacts, ...]
    serial: tuple[LoopFacts, ...]
    facts: KernelFacts

    @property
    def col_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c.name for c in self.cols))

    @property
    def has_reduction(self) -> bool:
        return any(c.kind == "reduce" for c in self.cols)

    @property
    def is_flat(self) -> bool:
        """One loop over everything: threads and blocks on the same loop."""
        return not self.rows and len(self.col_names) == 1

    @property
    def is_plane(self) -> bool:
        """Two or more loops, each spread over its own axis of threads and blocks; loops over blocks alone around them
        are a batch of planes."""
        return len(self.col_names) >= 2 and all(_has(c, "block") for c in self.cols)

    @property
    def is_rows(self) -> bool:
        return bool(self.rows) and bool(self.cols) and not self.is_plane

    @property
    def short(self) -> bool:
        return all(c.trip is not None and c.trip <= SHORT_ROW for c in self.cols)

    @property
    def free_block_axis(self) -> str:
        """A grid axis that no loop uses yet ('' if there is none)."""
        used = {level for x in (*self.rows, *self.cols) for level in x.levels}
        return next((a for a in "yz" if f"block.{a}" not in used), "")


def shape_of(f: KernelFacts) -> Shape:
    """Loops of a raised kernel by their role, those that the source calls alike under the name of all of them."""
    loops = _together(f.loops)
    parallel = [x for x in loops if x.kind in ("par", "reduce")]
    cols = tuple(x for x in parallel if _has(x, "thread", "lane", "warp"))
    rows = tuple(x for x in parallel if x not in cols and _has(x, "block"))
    serial = tuple(x for x in loops if x not in cols and x not in rows)
    return Shape(rows, cols, serial, f)


def _together(loops: Sequence[LoopFacts]) -> list[LoopFacts]:
    """``loops``; of several parallel (or serial) ones with one stem each is called ``i.*``: what is done to a sweep of
    a row is done to all."""

    def kin(x: LoopFacts) -> tuple[bool, str]:
        return x.kind in ("par", "reduce"), x.stem

    counts = Counter(map(kin, loops))
    return [replace(x, name=f"{x.stem}.*") if counts[kin(x)] > 1 else x for x in loops]


def _has(x: LoopFacts, *kinds: str) -> bool:
    return any(level.partition(".")[0] in kinds for level in x.levels)


# -------------------------------------------------------------------------------------------------------- the rules

Idea = tuple[str, str, float]
"""Steps after ``raise``, the reason, the speed-up an expert would expect over naive code."""


def vectors(s: Shape) -> tuple[str, str]:
    """A level of vector lanes and its factor in a product of sizes, for a distribution of the columns; '' and '' where
    no access moves by one element an iteration: each is a vector by hand already, and lanes would only spread threads
    apart."""
    wide = any(c.strided for c in s.cols) and not any(c.unit for c in s.cols)
    return ("", "") if wide else ("vec $V, ", "V * ")


def flat_stream(s: Shape, units: int) -> Iterator[Idea]:
    """One long loop: wide accesses, then several of them in flight, then fewer blocks that walk the grid."""
    i, axis = s.cols[0].name, _block_axis(s.cols[0])
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


def short_rows(s: Shape, units: int) -> Iterator[Idea]:
    """Rows shorter than a block: several rows side by side.

    Which rows lie next to each other in memory is for the measurement to tell: each loop gets its turn as the one that
    neighbouring threads and blocks share.
    """
    vec, v = vectors(s)
    fits = at_most(s, f"{v}LANES") + at_least(s, f"{v}LANES")
    lanes = "$LANES:(2,4,8,16,32,64,128)"
    whole = " | ".join(f"distribute{{loop={c} map=[{vec}thread.x {lanes}]}}" for c in s.col_names)
    for r in s.rows if len(s.rows) == 2 else ():
        other = next(o for o in s.rows if o.name != r.name)
        swap = (
            f"distribute{{loop={other.name} map=[block.z]}}"
            f" | distribute{{loop={r.name} map=[thread.y $ROWS, block.x]}}"
            f" | distribute{{loop={other.name} map=[block.y]}}"
        )
        yield (
            f"{swap} | {whole}{fits}",
            f"several {r.name} a block and in neighbouring blocks, one access a thread",
            2.5,
        )
    inner = s.rows[-1].name
    rows = f"rows-mapping{{loop={inner} rows=$ROWS lanes=$LANES}}"
    wide = " | ".join(f"vectorize{{loop={c} width=$V}}" for c in s.col_names)
    if vec:
        yield f"{rows} | {wide}{fits}", f"several {inner} a block, wide accesses", 2.0
    yield f"{rows}{at_most(s, 'LANES')}", f"several {inner} a block", 1.5


def row_reduction(s: Shape, units: int) -> Iterator[Idea]:
    """Sweeps over a row with a reduction between them: read once, keep the row."""
    vec, _ = vectors(s)
    whole = _whole(s, bool(vec))
    if whole is None or whole.long:
        yield from _long_row(s, whole)
        return
    maps = {"registers": f"[{vec}thread.x $T, {whole.unroll}]", "shared": f"[{vec}thread.x $T, seq]"}
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
                held = _each(s, f"[{vec}thread.x $T, {whole.unroll}]", tail)
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
        return Whole("unroll $U", "", long=False)
    return whole_row(trip, s.facts.elem_bytes, wide)


def _is_swept_again(s: Shape) -> bool:
    """Whether something goes several times through the elements of a row."""
    return len(s.cols) > len({c.parent for c in s.cols})


def _each(s: Shape, levels: str, tail: str = "") -> str:
    """Steps that give ``levels`` to every loop over columns."""
    return " | ".join(f"distribute{{loop={c} map={levels}{tail}}}" for c in s.col_names)


def plane_reuse(s: Shape, units: int) -> Iterator[Idea]:
    """A two-dimensional stencil: neighbours share loads, so a thread takes several of them."""
    y, x = _plane(s)
    rows = f"distribute{{loop={y.name} map=[thread.y $TY, block.{_block_axis(y)}]}}"
    cols = f"distribute{{loop={x.name} map=[thread.x $TX, block.{_block_axis(x)}]}}"
    down = f"distribute{{loop={y.name} map=[unroll $UY, thread.y $TY, block.{_block_axis(y)}]}}"
    across = f"distribute{{loop={x.name} map=[thread.x $TX, unroll $UX, block.{_block_axis(x)}]}}"
    wide = f"distribute{{loop={x.name} map=[vec $V, thread.x $TX, block.{_block_axis(x)}]}}"
    yield f"{down} | {cols}", "rows stacked in a thread share their neighbours' loads", 1.3
    yield f"{down} | {wide}", "stacked rows and wide accesses", 1.3
    for z in _layers(s):
        layers = f"distribute{{loop={z.name} map=[unroll $UZ:(2,4,8), block.{_block_axis(z)}]}}"
        yield f"{layers} | {rows} | {cols}", "layers stacked in a thread share their neighbours' loads", 1.3
        yield f"{layers} | {rows} | {wide}", "stacked layers and wide accesses", 1.3
    yield f"{rows} | {cols}", "block shape", 1.1
    yield f"{rows} | {across}", "several columns a thread", 1.1


def neighbouring_rows(s: Shape, units: int) -> Iterator[Idea]:
    """Rows that share loads with the rows beside them, each a block's: a block of several rows reads what they share
    once, and a thread with several of them keeps it in registers."""
    z, y, x = (*(r.name for r in s.rows[:-1]), "")[0], s.rows[-1].name, s.cols[0].name
    inner, outer = (f"{y}=[{{}}thread.y $TY:(2,4,8), block.y]", f"{z}=[{{}}block.z] " if z else "")
    across = {"": f"{x}=[thread.x $TX:(32,64,128), block.x]", "vec": f"{x}=[vec $V, thread.x $TX:(32,64), block.x]"}
    stacked = (outer.format("unroll $UZ:(2,4,8), "), inner.format("")) if z else ("", inner.format("unroll $UY, "))
    fewer = "layers" if z else "rows"
    yield f"map{{{''.join(stacked)} {across['']}}}", f"{fewer} stacked in a thread share their neighbours' loads", 2.0
    yield f"map{{{''.join(stacked)} {across['vec']}}}", f"stacked {fewer} and wide accesses", 2.0
    yield f"map{{{outer.format('')}{inner.format('')} {across['']}}}", "several rows a block", 1.6


def plane_transposed(s: Shape, units: int) -> Iterator[Idea]:
    """One side of the copy is strided whichever loop is fastest: several elements a thread, along either side."""
    y, x = _plane(s)
    aside = f"distribute{{loop={y.name} map=[block.z]}}"  # no two loops may hold one axis, not even between steps
    swapped = f"distribute{{loop={y.name} map=[thread.x $TX, block.x]}}"
    across = f"distribute{{loop={x.name} map=[unroll $UX, thread.y $TY, block.y]}}"
    down = f"distribute{{loop={y.name} map=[unroll $UY, thread.y $TY, block.{_block_axis(y)}]}}"
    cols = f"distribute{{loop={x.name} map=[thread.x $TX, block.{_block_axis(x)}]}}"
    yield f"{down} | {cols}", "several rows a thread: strided accesses share cache lines", 1.5
    yield f"{aside} | {across} | {swapped}", "the other side contiguous, several elements a thread", 1.5
    rows = f"distribute{{loop={y.name} map=[thread.y $TY, block.{_block_axis(y)}]}}"
    yield f"{rows} | {cols}", "block shape", 1.2


def plane_product(s: Shape, units: int) -> Iterator[Idea]:
    """A contraction per element: register tiles reuse each loaded value across the tile."""
    y, x = _plane(s)
    down = f"distribute{{loop={y.name} map=[unroll $TM, thread.y $TY, block.{_block_axis(y)}]}}"
    wide = f"distribute{{loop={x.name} map=[vec $V, thread.x $TX, block.{_block_axis(x)}]}}"
    across = f"distribute{{loop={x.name} map=[thread.x $TX, unroll $TN, block.{_block_axis(x)}]}}"
    k = f" | unroll{{loop={s.serial[-1].name} factor=$UK}}" if s.serial else ""
    yield f"{down} | {across}", "a register tile: TM*TN products from TM+TN loads", 3.0
    yield f"{down} | {wide}", "a register tile with wide accesses along the row", 3.0
    if k:
        yield f"{down} | {wide}{k}", "and the contraction unrolled", 3.2


def _plane(s: Shape) -> tuple[LoopFacts, LoopFacts]:
    """(rows, columns) of a plane, or of a volume's planes: the loops with thread.y and thread.x, else the innermost."""
    x = next((c for c in s.cols if "thread.x" in c.levels), s.cols[-1])
    others = [c for c in s.cols if c.name != x.name]
    return next((c for c in others if "thread.y" in c.levels), others[-1]), x


def _layers(s: Shape) -> list[LoopFacts]:
    """The loop over a volume's planes, where threads are spread over it too."""
    names = {x.name for x in _plane(s)}
    return [c for c in s.cols if c.name not in names and _has(c, "block")][:1]


def _block_axis(x: LoopFacts) -> str:
    return next((level[6:] for level in x.levels if level.startswith("block.")), "x")


def is_product(s: Shape) -> bool:
    return s.is_plane and bool(s.serial) and s.facts.reuse > 2


def is_transposed(s: Shape) -> bool:
    return s.is_plane and not s.serial and any(c.unit and c.strided for c in s.cols) and s.facts.reuse < REUSE


def is_stencil_of_rows(s: Shape) -> bool:
    one = len(s.rows) <= 2 and len(s.cols) == 1
    return s.is_rows and one and not s.serial and not s.has_reduction and s.facts.reuse > REUSE


def packed_elements(s: Shape, wide: str) -> Iterator[Idea]:
    """The eight numbers of a packed word, the four of a counter: ``wide`` makes one access of what was one after
    another in a thread, whatever its block's shape."""
    axes = {c.name: (a, _block_axis(c)) for c in s.cols if _has(c, "block") for a in "xyz" if f"thread.{a}" in c.levels}
    blocks = [f"distribute{{loop={n} map=[thread.{a} $T{a.upper()}, block.{b}]}}" for n, (a, b) in axes.items()]
    yield " | ".join((wide, *blocks)), "neighbouring elements in one access, block shape", 1.6
    yield wide, "neighbouring elements in one access", 1.5


LONG = "one long loop"

RULES: tuple[tuple[str, Callable[[Shape], bool], Callable[[Shape, int], Iterator[Idea]]], ...] = (
    ("contraction over a plane", is_product, plane_product),
    ("plane with a strided side", is_transposed, plane_transposed),
    ("plane with shared neighbours", lambda s: s.is_plane, plane_reuse),
    ("rows with shared neighbours", is_stencil_of_rows, neighbouring_rows),
    ("short rows", lambda s: s.is_rows and s.short, short_rows),
    ("row reduction", lambda s: s.is_rows and s.has_reduction, row_reduction),
    ("rows", lambda s: s.is_rows and not s.has_reduction, row_stream),
    (LONG, lambda s: s.is_flat, flat_stream),
)
"""(what it is called in reports, when it applies, what it proposes). Every row that applies contributes, in order."""
