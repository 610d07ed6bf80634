"""Ideas for values that iterations carry or share: running sums, sums over rows or everything, counts, online maxima.

Each pass says itself where it applies; this module knows what has to come before it (the loops around a scan over
blocks alone, a tile for each block that counts) and which distributions experts start from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.analysis.planner_facts import facts as facts_at
from ktc.ir.analysis.uniformity import THREAD_LEVELS
from ktc.ir.kernel import Kernel
from ktc.ir.launch_limits import WARP
from ktc.ir.nodes import Atomic, For, Load, Par, Reduce, Scan, Stmt, bodies
from ktc.ir.types import Scalar, Vec
from ktc.ir.walk import all_exprs, used, walk
from ktc.passes.core.catalogue import PASSES
from ktc.passes.core.pipeline import apply_script
from ktc.passes.core.places import PARALLEL, place_of, places_of
from ktc.passes.core.refusals import allowed
from ktc.passes.core.script import DistSpec, Script, Step
from ktc.passes.reductions.privatize_atomics import MOST_BINS, most_of
from ktc.passes.reductions.recurrences import recognised

from .nest_shapes import RESIDENT, Idea
from .ordered_rows import ordered_rows
from .rows import walk_apart
from .tables import tables
from .taps import taps
from .trials import after, wherever

BYTE = 256

CHUNKS = (2048, 16384, 131072, 1048576)
"""Iterations that a block counts for itself before it adds its counts to the array."""

COUNTING = (4, 8, 2, 1)
"""Blocks a compute unit that count for all, likeliest first: more hide more of the wait for memory, and add up more
arrays."""

BUSY = 2
"""Blocks a compute unit, fewer than which leave it waiting for memory."""


def carried(
    raised: Kernel,
    units: int,
    facts: Sequence[KernelFacts] = (),
    has_warps: bool = True,
    extents: Mapping[str, int] | None = None,
) -> Iterator[Idea]:
    """What applies to ``raised`` on a device of ``units`` compute units, most promising first. ``facts``: of ``raised``
    at the sizes it is tuned for; ``has_warps``: whether threads of a block share memory and run side by side;
    ``extents``: elements of the buffers that callers pass, as far as they are known."""
    yield from scans(raised, units, facts)
    if has_warps:
        yield from ordered_rows(raised)
        yield from tables(raised)
        yield from taps(raised)
    yield from online(raised, units)
    yield from column_sums(raised, units, facts)
    yield from shared_columns(raised)
    yield from counts(raised, units, facts, extents)


def scans(raised: Kernel, units: int, facts: Sequence[KernelFacts] = ()) -> Iterator[Idea]:
    """Running values: a block per row, or, where there are too few rows to keep all units at work, every block."""
    for before, kernel in (("", raised), *_on_variables(raised)):
        yield from _running_values(before, kernel, units, facts)
    for s in walk(raised.body):
        if isinstance(s, Scan):
            yield from _spread_anew(raised, s, units, facts)


def _on_variables(raised: Kernel) -> Iterator[tuple[str, Kernel]]:
    """``raised`` with running values that it hands on through memory in variables, and the step that leads there."""
    for loop in _serial(raised):
        step = f"forward-stores{{loop={place_of(raised, loop)}}}"
        if not allowed(recognised, loop, raised) and (done := after(raised, step)) is not None:
            yield f"{step} | ", done


def _running_values(before: str, kernel: Kernel, units: int, facts: Sequence[KernelFacts]) -> Iterator[Idea]:
    """Those of serial loops of ``kernel``, which the steps ``before`` lead to."""
    for loop in _serial(kernel):
        if allowed(recognised, loop, kernel):
            alone = _blocks_alone(kernel, loop)
            aside = before + "".join(f"distribute{{loop={p.var.name} map=[{b}]}} | " for p, b in alone)
            i = loop.var.name
            where = "the running value by all threads of a block"
            ideas = [
                (f"{aside}scan{{loop={i} map=[vec $V, thread.x $T, unroll $U, seq]}}", f"{where}, vectors", 20.0),
                (f"{aside}scan{{loop={i} map=[thread.x $T, seq]}}", where, 10.0),
            ]
            few = _few(alone, units, facts)
            if len(alone) <= 2:
                rows = "".join(f"distribute{{loop={p.var.name} map=[block.{a}]}} | " for (p, _), a in zip(alone, "yz"))
                blocks = _shares(alone, units, facts)
                levels = f"[vec $V, thread.x $T:(32,256,512,1024), unroll $U:(2,4,8), block.x $BLOCKS:({blocks}), seq]"
                tiles = f"{before}{rows}scan{{loop={i} map={levels}}}"
                ideas.insert(
                    0 if few else 1, (tiles, "the running value of a long row by all blocks", 40.0 if few else 5.0)
                )
            yield from ideas


def _spread_anew(raised: Kernel, s: Scan, units: int, facts: Sequence[KernelFacts]) -> Iterator[Idea]:
    """A scan that ``raise`` found, by threads as many as suit it, or by several blocks where there are few rows."""
    i = place_of(raised, s)
    rows = [(p, f"block.{_axis(p)}") for p in _around(raised, s) if _levels(p, "block")]
    apart = "".join(f"distribute{{loop={p.var.name} map=[block.{a}]}} | " for (p, _), a in zip(rows, "yz"))
    levels = (
        f"vec $V, thread.x $T:(32,256,512,1024), unroll $U:(2,4,8), block.x $BLOCKS:({_shares(rows, units, facts)})"
    )
    if _few(rows, units, facts) and len(rows) <= 2:
        yield f"{apart}scan{{loop={i} map=[{levels}, seq]}}", "few rows: the running value by all blocks", 5.0
    yield f"scan{{loop={i} map=[vec $V, thread.x $T, unroll $U, seq]}}", "wide accesses, several in flight", 1.7
    yield f"scan{{loop={i} map=[thread.x $T, unroll $U, seq]}}", "several accesses in flight", 1.3


def _few(around: Sequence[tuple[Par, str]], units: int, facts: Sequence[KernelFacts]) -> bool:
    """Whether the loops ``around`` make, at some of the sizes, fewer blocks than keep ``units`` busy."""
    return any(n < BUSY * units for n in _counts(around, units, facts))


def _counts(around: Sequence[tuple[Par, str]], units: int, facts: Sequence[KernelFacts]) -> list[int]:
    """The iterations of all the loops ``around`` at each of the sizes."""
    names = {p.var.name for p, _ in around}
    return [prod(x.trip or units for x in f.loops if x.name in names) for f in facts]


def _shares(around: Sequence[tuple[Par, str]], units: int, facts: Sequence[KernelFacts]) -> str:
    """Blocks for each of the rows: together as many as stay on the device, a whole number of them a unit."""
    rows = min(_counts(around, units, facts), default=1)
    return ",".join(str(n) for n in dict.fromkeys(max(units * k // rows, 1) for k in (1, 2, 3, 4)))


def _many(around: Sequence[Par], units: int, facts: Sequence[KernelFacts]) -> bool:
    """Whether the loops ``around`` a sum fill ``units`` compute units with threads, at all of the sizes."""
    names = {p.var.name for p in around}
    trips = [prod(x.trip or 1 for x in f.loops if x.name in names) for f in facts]
    return bool(trips) and all(n >= units * RESIDENT for n in trips)


def _short(loop: For, facts: Sequence[KernelFacts]) -> bool:
    """Whether ``loop`` has too few terms for the threads of a warp, at all of the sizes: a filter's taps."""
    trips = [x.trip for f in facts for x in f.loops if x.name == loop.var.name]
    return bool(trips) and all(n is not None and n < WARP for n in trips)


def online(raised: Kernel, units: int) -> Iterator[Idea]:
    """Maximum and sum of exponentials: one read of the row."""
    for site in PASSES["online-reduction"].sites(raised):
        yield str(site.step.with_(own="thread")), "each element read once, sums of each thread meet once a row", 3.0
        yield str(site.step), "each element read once, tile by tile", 2.5


def whole_sums(raised: Kernel, units: int) -> Iterator[Idea]:
    """A sum a block joined by atomics is one sum: as many blocks as fill the device, several vectors in flight."""
    blocks = ",".join(str(units * k) for k in (1, 2, 4, 8))
    for site in PASSES["split-reduction"].sites(raised):
        if _over_blocks(site.step, "x"):
            loop = site.step.kwargs["loop"]
            sums = _reductions(raised, site.step)
            lanes = "" if any(map(_takes_vectors, sums)) else "vec $V, "
            levels = f"[{lanes}thread.x $T, unroll $U:(2,4,8), block.x $PARTS:({blocks}), seq]"
            tiles = f"[{lanes}thread.x $T, unroll $U:(2,4,8), seq $S:(1,2,4), block.x]"
            for name in (s.var.name for s in sums):
                joined = f"split-reduction{{loop={loop} map={tiles}}} | reduce-strategy{{loop={name} strategy=atomic}}"
                yield joined, "one sum, joined by atomics as the source's are", 25.0
            yield f"split-reduction{{loop={loop} map={levels}}}", "one sum by resident blocks", 20.0
            yield str(site.step), "one sum, a part a block", 2.0


def _takes_vectors(s: Reduce) -> bool:
    """Whether each term of ``s`` is of vectors already: more of them side by side would only spread threads apart."""
    return any(isinstance(e, Load) and isinstance(e.type, Vec) for e in all_exprs(s.body))


COLUMNS_A_UNIT = 64
"""Columns for each of a device's units, from which on blocks of some columns give every unit a block."""


def column_sums(raised: Kernel, units: int, facts: Sequence[KernelFacts] = ()) -> Iterator[Idea]:
    """A serial sum in each of many threads: the threads of a column share it, and blocks where columns are few.

    Where there are columns for every thread that the device holds at once, nothing is gained; rows that lie apart are
    :mod:`.rows`' business.
    """
    for site in PASSES["split-reduction"].sites(raised):
        name = site.step.kwargs["loop"]
        loop = next((s for s in _serial(raised) if s.var.name == name), None)
        around = _around(raised, loop) if loop is not None else []
        along = [p for p in around if _levels(p, "thread")]
        if len(along) != 1 or loop is None or _many(around, units, facts) or _short(loop, facts):
            continue
        if walk_apart(raised, along[0], [loop]):
            continue
        j, axis = along[0].var.name, _axis(along[0])
        across = f"distribute{{loop={j} map=[vec $V, thread.x $TX:(2,4,8,16,32,64), block.{axis}]}}"
        rows = f"split-reduction{{loop={name} map=[unroll $U:(4,8), thread.y $TY:(4,8,16,32,64)"
        free = next((a for a in "yz" if a != axis), "y")
        parts = f"block.{free} $PARTS:(8,16,32,43,64,88,128)"
        ideas = [
            (f"{across} | {rows}, {parts}, seq]}}", "each column's sum by threads and blocks", 20.0),
            (f"{across} | {rows}, seq]}}", "each column's sum by the threads of a block", 10.0),
        ]
        columns = [x.trip or 0 for f in facts for x in f.loops if x.name == j]
        alone = bool(columns) and min(columns) >= COLUMNS_A_UNIT * units  # nothing is to be put together then
        yield from reversed(ideas) if alone else ideas


def shared_columns(raised: Kernel) -> Iterator[Idea]:
    """Columns whose sums the threads of a block share already, as their authors wrote them: wider, and by several
    blocks a column."""
    for p in (s for s in walk(raised.body) if isinstance(s, Par) and _levels(s, "thread") and _levels(s, "block")):
        sums = [s for s in walk(p.body) if isinstance(s, Reduce) and [lv.kind for lv in s.dist] == ["thread", "seq"]]
        up = {s.dist[0].axis for s in sums}
        if len(up) != 1 or any(lv.axis in up for lv in p.dist if lv.kind == "thread"):
            continue
        axis, high = _axis(p), up.pop()
        across = f"distribute{{loop={p.var.name} map=[vec $V, thread.x $TX:(2,4,8,16,32,64), block.{axis}]}}"
        rows = f"map=[unroll $U:(4,8), thread.{high} $TY:(4,8,16,32,64)"
        free = next((a for a in "yz" if a != axis), "y")
        parts = f"{rows}, block.{free} $PARTS:(8,16,32,43,64,88,128), seq]"
        for names, why, gain in (
            (parts, "by threads and blocks", 3.0),
            (f"{rows}, seq]", "by the threads of a block", 2.0),
        ):
            each = [f"distribute{{loop={n} {names}}}" for n in places_of(raised, sums, PARALLEL)]
            yield " | ".join((across, *each)), f"each column's sum {why}", gain


def counts(
    raised: Kernel, units: int, facts: Sequence[KernelFacts] = (), extents: Mapping[str, int] | None = None
) -> Iterator[Idea]:
    """Atomics: on one element, a reduction; on elements that the data choose, counts of each block's own, where a block
    has room for as many as the array has."""
    yield from ((str(s.step), s.doc, 10.0) for s in PASSES["warp-aggregate"].sites(raised))
    own = {str(site.step.kwargs["array"]) for site in PASSES["join-counts"].sites(raised)}
    counted = [s for s in walk(raised.body) if isinstance(s, Atomic) and s.buffer.name in own]
    shown = all(most_of(s.index[0]) < MOST_BINS for s in counted)  # else the source's array alone shows it
    joined = _joined_counts(raised, units, 40.0 if shown else 60.0)
    yield from joined if not shown else ()
    before, kernel = _counted_anew(raised)
    for p in (s for s in walk(kernel.body) if isinstance(s, Par) and _levels(s, "thread") and _levels(s, "block")):
        atomics = [s for s in p.body if isinstance(s, Atomic)]
        if len(atomics) != 1 or used(atomics[0].index[0]) <= {p.var}:
            continue
        i, array = p.var.name, atomics[0].buffer.name
        bins = min((extents or {}).get(array, BYTE), most_of(atomics[0].index[0]) + 1)
        if bins > MOST_BINS:
            continue
        chunks = _chunks(kernel, p, units, facts)
        tile = f"tile{{loops={i} sizes=$CHUNK:({','.join(map(str, chunks))})}}"
        spread = f"distribute{{loop={i} map=[vec $V, thread.x $T, seq]}}"
        for most, why in ((32, "a bank a lane"), (4, "few copies")):
            copies = f"$C:(1,{min(most, MOST_BINS // bins)})" if 2 * bins <= MOST_BINS else "1"
            private = f"privatize-atomics{{array={array} bins={bins} copies={copies}}}"
            yield f"{before}{tile} | {spread} | {private}", f"each block counts in shared memory, {why}", 50.0
    yield from joined if shown else ()


def _joined_counts(raised: Kernel, units: int, gain: float) -> Iterator[Idea]:
    for site in PASSES["join-counts"].sites(raised):
        step = str(site.step).replace("$BLOCKS", f"$BLOCKS:({','.join(str(n * units) for n in COUNTING)})")
        yield step, "as many blocks count as a device holds at once", gain


def _chunks(kernel: Kernel, p: Par, units: int, facts: Sequence[KernelFacts]) -> list[int]:
    """Iterations of ``p`` that a block may count: those that leave a block for each of ``units`` at one of the sizes at
    least; the fewest where there are none, or only few blocks."""
    trips = [x.trip for f in facts for x in facts_at(kernel, f.sizes).loops if x.name == p.var.name]
    most = max((CHUNKS[-1] * units if n is None else n for n in trips), default=CHUNKS[-1] * units)
    return [n for n in CHUNKS if n * units <= most] or [CHUNKS[0]]


def _counted_anew(raised: Kernel) -> tuple[str, Kernel]:
    """Steps (each with a bar behind it) by which blocks no longer count as the source has them do, where it does, and
    the kernel after them: one loop over what is counted."""
    direct, kernel = wherever(raised, "unprivatize-atomics")
    if not direct:
        return "", raised
    whole, kernel = wherever(kernel, "collapse")
    return direct + whole, kernel


# ---------------------------------------------------------------------------------------------------------- the loops


def _serial(k: Kernel) -> list[For]:
    return [s for s in walk(k.body) if isinstance(s, For) and isinstance(s.var.type, Scalar)]


def _around(k: Kernel, inner: Stmt | None) -> list[Par]:
    """Parallel loops around ``inner``, outermost first."""
    return [
        s for s in walk(k.body) if isinstance(s, Par) and any(x is inner for b in bodies(s) for x in walk(b))
    ]  # fmt: skip


def _over_blocks(step: Step, axis: str) -> bool:
    """Whether ``step`` spreads its loop over the blocks of ``axis``."""
    levels = step.kwargs.get("map")
    return isinstance(levels, DistSpec) and any((lv.kind, lv.axis) == ("block", axis) for lv in levels.levels)


def _reductions(raised: Kernel, step: Step) -> list[Reduce]:
    """The reductions over blocks that ``step`` makes, where atomics take their results."""
    done = apply_script(raised, Script((step,))).kernel
    return [s for s in done.body if isinstance(s, Reduce) and any(isinstance(x, Atomic) for x in done.body)]


def _levels(p: Par, kind: str) -> bool:
    kinds = THREAD_LEVELS if kind == "thread" else (kind,)
    return any(lv.kind in kinds for lv in p.dist)


def _axis(p: Par) -> str:
    return next((lv.axis or "x" for lv in p.dist if lv.kind == "block"), "x")


def _blocks_alone(k: Kernel, inner: Stmt) -> list[tuple[Par, str]]:
    """Loops around ``inner`` that are spread over threads, each with a block axis for all of it."""
    return [(p, f"block.{_axis(p)}") for p in _around(k, inner) if _levels(p, "thread")]


__all__ = ["carried", "whole_sums"]
