"""Lanes for the loop with unit stride: threads take what each iteration of an outer loop went through alone.

A kernel that gives a thread a whole row (a token, a query) has its threads a row apart in memory, and so has one that
sums a column by a block; one that sums a column by a thread has too few of them. Schedules of the whole nest are
proposed that give neighbouring threads neighbouring elements: where the loops inside go through them, those take the
lanes and the outer loop takes blocks, or groups of lanes side by side; where the outer loop does, it takes the lanes,
and the loops inside are shared by other threads and by blocks. So are loops that one thread of a block goes through
while the others wait.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.access_nests import accesses
from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.launch_limits import WARP
from ktc.ir.nodes import For, Par, Reduce
from ktc.ir.types import F32
from ktc.ir.walk import loads_in, used, walk
from ktc.passes.core.named_loops import Loop, loops
from ktc.passes.core.places import PARALLEL, place_of, places_of
from ktc.passes.memory.row_lengths import most

from .nest_shapes import Idea
from .rows import plain_sweeps
from .trials import after, wherever
from .whole_rows import whole_row

NORMALISE = "normalise"

GAIN = 8.0
"""What accesses side by side are worth against accesses a row apart: a sector has eight floats."""

SECTOR = 8
"""Elements from which on a loop is a row."""

ROWS, COLUMNS = "thread.y $ROWS:(1,2,4,8), block.x", "thread.x $TX:(8,16,32,64), block.x"
IN_FLIGHT = "unroll $U:(2,4,8), thread.y $TY:(4,8,16,32)"

INSIDE = (
    (f"[{ROWS}]", "thread.x $LANES:(8,16,32), seq", "rows side by side, on lanes of their own"),
    ("[block.x]", "thread.x $T, seq", "a block a row"),
)
"""Where loops inside move by one element: levels of the outer loop, and of those loops after wide accesses."""

ACROSS = (
    (COLUMNS, f"[{IN_FLIGHT}, block.y $P:(8,16,32,64), seq]", "a block some columns, blocks share what is summed"),
    (COLUMNS, f"[{IN_FLIGHT}, seq]", "a block some columns"),
)
"""Where the outer loop moves by one element: its levels after wide accesses, and those of the loops inside."""

IDLE = (
    ("[block.x]", "thread.x $T, unroll $U:(1,2,4,8), block.y $P:(8,16,32,64,128), seq", "blocks share what is summed"),
    ("[block.x]", "thread.x $T, unroll $U:(1,2,4,8), seq", "the threads of a block share what one did"),
)
"""Where one thread of each block goes through the loops inside: levels of the outer loop, and of those loops."""

LONGEST_COLUMN = 1024
"""Elements of a column that the registers of a block's threads hold beside others."""

IN_SHARED = "thread.x $T:(32,128,512)"
"""Threads of a block whose row is kept in shared memory: a warp needs no barrier, others hide more of the waiting."""

LEAST_LANES, BLOCK = 2, 128
"""Lanes of a row of few elements, and threads of a block of such rows."""

WHOLE_ROUNDS = (" tail=cut", "")
"""Unrolled rounds that are whole ask for nothing, so their loads go out together; without, each is asked about."""

WIDE = ("vec $V, ", "")
"""Before the levels of what moves by one element: wide accesses if they can be, else single ones."""


def lanes(
    raised: Kernel,
    able: Callable[[str], bool],
    seen: Sequence[KernelFacts] = (),
    extents: Mapping[str, int] | None = None,
) -> Iterator[Idea]:
    """Steps after ``raise`` with why and a guess of the gain; ``able`` says whether steps can be lowered, ``seen`` are
    facts at the sizes that it is tuned for, ``extents`` elements of the buffers there."""
    alone, narrow = wherever(raised, "narrow")
    before, kernel = _plain(narrow)
    for outer in loops(kernel):
        nest = _nest(kernel, outer, _shortest(seen))
        if nest is not None:
            kept = _kept_across if nest.across else _kept
            average = _average(kernel, outer, seen, extents or {})
            ideas = [*(kept(kernel, nest, seen) if nest.several else ()), *nest.ragged(average), *nest.maps()]
            for steps, why in ideas:
                first = next((x for x in (alone + before + s for s in steps) if able(x)), None)
                if first is not None:
                    yield first, f"{why}: neighbouring lanes take neighbouring elements", GAIN
            break
    if alone:
        yield alone.removesuffix(" | "), "all iterations compute what one of them stores: that one alone", GAIN


def _plain(raised: Kernel) -> tuple[str, Kernel]:
    """Steps (each with a bar behind it) that make loops parallel, leave out stores which a later sweep reads and
    overwrites, and choose values where threads would branch on data; and the kernel after them."""
    normal = after(raised, NORMALISE)
    if normal is None:
        return "", raised
    deferred, kernel = plain_sweeps(normal)
    chosen, kernel = wherever(kernel, "if-convert")
    return f"{NORMALISE} | {deferred}{chosen}", kernel


def _kept(kernel: Kernel, nest: Nest, seen: Sequence[KernelFacts]) -> Iterator[tuple[list[str], str]]:
    """Rows that are swept several times and read once, as :meth:`Nest.maps` has them: in the registers of a block's
    threads, or of a warp's, or in shared memory. A row that ends at its query is as long as any of them may be."""
    sweeps = [s for s in loops(kernel) if isinstance(s, Par | Reduce) and s.var.name in nest.sweeps]
    known = all(used(s.hi) <= {p.sym for p in kernel.params} for s in sweeps)
    n = max((_length(kernel, s, f) for s in sweeps for f in seen), default=0)
    size = max((f.elem_bytes for f in seen), default=F32.bytes)
    keep = f"row-cache{{loop={nest.inside[0]} keep=loaded"
    for outer, whole, why in (
        (
            ("[block.x]", whole_row(n, size, known), "a block a row, which its registers hold"),
            (f"[{ROWS}]", whole_row(n, size, known, str(WARP), (WARP,)), "rows in a warp's registers"),
        )
        if n
        else ()
    ):
        if whole is not None:
            inner = f"[{WIDE[0] if known else ''}{whole.threads}, {whole.unroll}]"
            tail = " tail=cut" if whole.long and known else ""
            yield [f"{nest.mapped(outer, inner, tail)} | {keep}}}{whole.where}"], why
    shared = [nest.mapped("[block.x]", f"[{wide}{IN_SHARED}, seq]") for wide in (WIDE if known else WIDE[1:])]
    yield [f"{steps} | {keep} where=shared}}" for steps in shared], "a block a row, kept in shared memory"


def _kept_across(kernel: Kernel, nest: Nest, seen: Sequence[KernelFacts]) -> Iterator[tuple[list[str], str]]:
    """Columns that are swept several times and read once: in the registers of the threads that share them."""
    sweeps = [s for s in loops(kernel) if isinstance(s, Par | Reduce) and s.var.name in nest.sweeps]
    n = max((_length(kernel, s, f) for s in sweeps for f in seen), default=0)
    if 0 < n <= LONGEST_COLUMN:
        own, rest = "thread.x $TX:(8,16,32), block.x", f" | row-cache{{loop={nest.inside[0]} keep=loaded}}"
        fits = f" where TY * U < {2 * n}"
        levels = "[thread.y $TY:(8,16,32), unroll $U:(1,2,4,8,16,32)]"
        yield (
            [f"{nest.mapped(f'[{wide}{own}]', levels)}{rest}{fits}" for wide in nest.widths],
            "some columns, in registers",
        )


def _length(kernel: Kernel, sweep: Par | Reduce, f: KernelFacts) -> int:
    """Elements of the longest row that ``sweep`` goes through at the sizes of ``f``; 0 if that is not known."""
    end = most(kernel, sweep.hi)
    sizes = {k: v for k, v in f.sizes.items() if isinstance(v, int)}
    return int((None if end is None else evaluate(end, kernel.environment(sizes))) or 0)


@dataclass(frozen=True)
class Nest:
    """A loop and the loops inside it by name, ``sweeps`` by those of their variables; ``across``: whether the outer one
    moves by one element; ``idle``: whether one thread of a block does all that each of its iterations does; ``unit``:
    whether what takes the lanes, the loops inside or else the outer one, moves by one element in some accesses."""

    outer: str
    inside: tuple[str, ...]
    sweeps: frozenset[str]
    across: bool
    idle: bool = False
    unit: bool = True

    @property
    def several(self) -> bool:
        """Whether each iteration of the outer loop goes several times through something."""
        return len(self.inside) > 1 or self.inside[0].endswith(".*")

    @property
    def widths(self) -> Sequence[str]:
        """:data:`WIDE`, as far as what takes the lanes moves by one element."""
        return WIDE if self.unit else WIDE[1:]

    def mapped(self, outer: str, inner: str, tail: str = "") -> str:
        """The step that gives ``outer`` and ``inner`` levels to the loop and to those inside it."""
        each = " ".join(f"{name}={inner}" for name in self.inside)
        return f"map{{{self.outer}={outer} {each}{tail}}}"

    def ragged(self, average: int) -> Iterator[tuple[list[str], str]]:
        """The same where memory says how long rows are, on average shorter than a warp: as many lanes as they need."""
        if self.across or self.idle or not 0 < average < WARP:
            return
        fit = max(LEAST_LANES, 1 << average.bit_length() - 1)
        own = f"thread.x $LANES:({','.join(str(n) for n in (fit, fit * 2, fit // 2) if LEAST_LANES <= n <= WARP)}), seq"
        rows = f"thread.y $ROWS:({BLOCK // fit},{2 * BLOCK // fit},{BLOCK // fit // 2}), block.x"
        yield [self.mapped(f"[{rows}]", f"[{own}]")], "rows side by side, on as many lanes as they have elements"

    def maps(self) -> Iterator[tuple[list[str], str]]:
        """Steps of which the first that can be lowered is meant, and why."""
        if self.idle:
            for levels, own, why in IDLE:
                yield [self.mapped(levels, f"[{wide}{own}]") for wide in self.widths], why
        elif self.across:
            for own, levels, why in ACROSS:
                yield (
                    [self.mapped(f"[{wide}{own}]", levels, tail) for wide in self.widths for tail in WHOLE_ROUNDS],
                    why,
                )
        else:
            for levels, own, why in INSIDE:
                yield [self.mapped(levels, f"[{wide}{own}]") for wide in WIDE], why


def _average(kernel: Kernel, outer: Loop, seen: Sequence[KernelFacts], extents: Mapping[str, int]) -> int:
    """Elements of an average row of ``outer`` where memory says how long each is: of the longest array that is gone
    through in rows, as many as there are for each; 0 where that is not known."""
    rows = max((x.trip or 0 for f in seen for x in f.loops if x.stem == outer.var.stem), default=0)
    ragged = {s.var.name for s in walk(outer.body) if isinstance(s, Par | Reduce) and any(loads_in(s.hi))}
    along = [a for a in accesses(kernel) if a.space == "global" and any(a.pattern(n) == "unit" for n in ragged)]
    return max((extents.get(a.buffer.name, 0) for a in along), default=0) // rows if rows else 0


def _shortest(seen: Sequence[KernelFacts]) -> frozenset[str]:
    """The loops, as the source calls them, that go round less than :data:`SECTOR` times at all of the sizes, where that
    is known: what is left of a window at an edge is no row."""
    turns: dict[str, list[int | None]] = {}
    for x in (x for f in seen for x in f.loops):
        turns.setdefault(x.stem, []).append(x.typical)
    return frozenset(stem for stem, n in turns.items() if all(k is not None and k < SECTOR for k in n))


def _nest(kernel: Kernel, outer: Loop, short: Collection[str] = ()) -> Nest | None:
    """The nest of ``outer`` and the innermost loops inside it, but the ``short`` ones, where neighbouring threads are
    not at neighbouring elements today."""
    if not isinstance(outer, Par):
        return None
    inner = [s for s in walk(outer.body) if isinstance(s, For | Par | Reduce)]
    leaves = [s for s in inner if isinstance(s, Par | Reduce) and not any(x in inner for x in walk(s.body))]
    leaves = [s for s in leaves if s.var.stem not in short]
    names = frozenset(s.var.name for s in leaves)
    found = [a for a in accesses(kernel) if a.space == "global" and names & {x.name for x in a.axes}]
    inside = [a for a in found if any(a.moves(s.var.name) for s in leaves)]
    both = [a for a in inside if a.moves(outer.var.name)]
    found = both or inside or found  # what is read once a row, or once a column, is little beside the matrix
    if not both and inside and all(_is_for_all(s, outer) for s in leaves):
        return None  # all pairs of two rows: neighbouring threads read the same element, and several rows reuse it
    along = [s for s in leaves if any(a.pattern(s.var.name) == "unit" for a in found)]
    across = sum(a.is_side_by_side(outer.var.name) for a in found)
    name = place_of(kernel, outer)
    if along and 2 * across <= len(found) and _has_threads(outer) and all(map(_is_serial, along)):
        return Nest(name, tuple(places_of(kernel, along, PARALLEL)), names, across=False)
    shared = not _has_threads(outer) and any(map(_has_threads, leaves))
    alone = all(map(_is_serial, leaves)) and any(isinstance(s, Reduce) for s in leaves)
    if leaves and not along and across and (shared or alone):
        wide = any(a.pattern(outer.var.name) == "unit" for a in found)  # else by the lowest digit of a flat index
        return Nest(name, tuple(places_of(kernel, leaves, PARALLEL)), names, across=True, unit=wide)
    if leaves and not _has_threads(outer) and all(map(_is_serial, (s for s in inner if isinstance(s, Par | Reduce)))):
        return Nest(name, tuple(places_of(kernel, leaves, PARALLEL)), names, across=False, idle=True, unit=bool(along))
    return None


def _is_for_all(inner: Loop, outer: Loop) -> bool:
    """Whether ``inner`` goes through the same in each iteration of ``outer``, which has threads."""
    ends = (inner.lo, inner.hi) if isinstance(inner, Par | Reduce) else ()
    return _has_threads(outer) and not any(any(loads_in(e)) or outer.var in used(e) for e in ends)


def _has_threads(loop: Loop) -> bool:
    return any(lv.kind in ("thread", "lane") for lv in loop.dist)


def _is_serial(loop: Loop) -> bool:
    """Whether each thread goes through ``loop`` alone."""
    return [lv.kind for lv in loop.dist] == ["seq"]
