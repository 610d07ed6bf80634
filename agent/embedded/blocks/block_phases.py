"""Blocks that compute in phases, as attention is first written: dot products of a thread each, a softmax over them, and
sums that a thread each has a column of.

    par h in 0..heads @ [block.x]
      par t in 0..n @ [thread.x 256, seq]             map{t=[thread.y $Y, seq] i=[vec $V, thread.x $X, seq]}
        for i in 0..d: s += q[i] * k[t * dim + i]
        w[t] = s
      reduce(max) m over j in 0..n @ [thread.x 256, seq]   distribute{loop=j map=[thread.x $X, thread.y $Y, seq]}
        yield w[j]
      par c in 0..d @ [thread.x 256, seq]             map{c=[vec $V, thread.x $X, seq] t=[thread.y $Y, seq]}
        for t in 0..n: o += w[t] * v[t * dim + c]

In each phase neighbouring threads take neighbouring elements of what it reads, and the others of the block share the
other loop. All phases of a block have one shape of it, so one idea maps them all.

A device with more units than there are blocks gets several blocks for each softmax (``split-softmax``), in the same
phases, before those of one block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, prod

from ktc.ir.analysis.access_nests import Access, accesses
from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.analysis.uniformity import THREAD_LEVELS
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import For, Par, Reduce
from ktc.ir.walk import walk
from ktc.passes.core.catalogue import PASSES
from ktc.passes.core.named_loops import Loop, loops
from ktc.passes.core.places import place_of
from ktc.passes.shared.grid_reductions import spans_blocks

from ..nest_shapes import Idea
from ..trials import after

GAIN = 4.0
"""What wide accesses side by side, and threads that are not idle, are worth in each phase."""

LANES, GROUPS = "thread.x $X:(8,16,32)", "thread.y $Y:(4,8,16,32,64)={}"
"""Threads along memory, and the others of a block."""

FEW_GROUPS, MANY_GROUPS = 16, 64
"""Where to start: of blocks that fill the device several times over, and of fewer than it has units, whose threads then
are all that waits for memory."""

PARTS = (2, 4, 8, 16, 32)
"""Blocks that share the positions of a softmax."""

POSITIONS = 256
"""Fewer positions are not worth a second block: what the parts leave is brought together by one."""

SHARED_GAIN = 8.0
"""What units that are not idle are worth besides."""

BLOCK = " where X * Y >= 128"
"""Fewer threads leave a unit waiting."""

FLIGHTS = ("unroll $U:(1,2,4,8)=4, ", "")
"""Rows that a thread has in flight: several at a time, or one."""

WIDE = ("vec $V, ", "")


@dataclass(frozen=True)
class Phase:
    """A loop that threads share, by name, with the loops inside it; ``along``: whether those move through memory by one
    element, and not the outer one."""

    outer: str
    inside: tuple[str, ...] = ()
    along: bool = False

    def step(self, wide: str, flight: str, across: str) -> str:
        """The step that spreads the phase over the block, whose groups are ``across``."""
        if not self.inside:
            return f"distribute{{loop={self.outer} map=[{LANES}, {across}, seq]}}"
        lanes, groups = f"[{wide}{LANES}, seq]", f"[{flight}{across}, seq]"
        outer, inner = (groups, lanes) if self.along else (lanes, groups)
        return f"map{{{self.outer}={outer} {' '.join(f'{n}={inner}' for n in self.inside)}}}"


def phases(
    raised: Kernel, able: Callable[[str], bool], units: int = 1, seen: Sequence[KernelFacts] = ()
) -> Iterator[Idea]:
    """Steps after ``raise`` with why and a guess of the gain; ``able`` says whether steps can be lowered, ``seen`` are
    facts at the sizes that it is tuned for, on a device of ``units`` compute units."""
    blocks = _blocks(raised, seen)
    for before, kernel in _shared_out(raised, blocks, units, seen):
        for steps, held in _mapped(before, _phases(kernel), able, FEW_GROUPS):
            why = f"several blocks for each softmax, each phase by lanes along memory and groups across{held}"
            yield steps, why, SHARED_GAIN
    for steps, held in _mapped("", _phases(raised), able, MANY_GROUPS if blocks < 2 * units else FEW_GROUPS):
        yield steps, f"each phase of a block by lanes along memory and groups across{held}", GAIN


def _mapped(before: str, found: Sequence[Phase], able: Callable[[str], bool], start: int) -> Iterator[tuple[str, str]]:
    """The steps that spread the phases ``found``, behind ``before``, and what is to be said of them."""
    across = GROUPS.format(start)
    for flight in FLIGHTS if any(p.inside for p in found) else ():
        ideas = (before + " | ".join(p.step(wide, flight, across) for p in found) + BLOCK for wide in WIDE)
        steps = next((s for s in ideas if able(s)), None)
        if steps is not None:
            yield steps, ", several rows in flight" if flight else ""


def _shared_out(raised: Kernel, blocks: float, units: int, seen: Sequence[KernelFacts]) -> Iterator[tuple[str, Kernel]]:
    """Steps that give each long softmax several blocks where ``blocks`` leave units idle, and the kernel after them."""
    if blocks >= units or not any(p.inside for p in _phases(raised)):
        return
    parts = next((n for n in PARTS if blocks * n >= units), PARTS[-1])
    for site in PASSES["split-softmax"].sites(raised):
        name = site.step.kwargs["loop"]
        trips = [x.trip or 0 for f in seen for x in f.loops if x.name == name]
        step = f"split-softmax{{loop={name} parts=$PARTS:({','.join(map(str, PARTS))})={parts}}}"
        kernel = after(raised, step) if trips and max(trips) >= POSITIONS else None
        if kernel is not None:
            yield f"{step} | ", kernel


def _phases(raised: Kernel) -> list[Phase]:
    """The phases of each block; none where its threads are spread in another way than over one axis."""
    spread = [s for s in loops(raised) if isinstance(s, Par | Reduce) and _kinds(s) & {*THREAD_LEVELS}]
    if len(spread) < 2 or any("block" in _kinds(s) or not _by_threads(s) for s in spread):
        return []
    read = [a for a in accesses(raised) if a.space == "global"]
    parts = [s for s in loops(raised) if spans_blocks(s)]
    of_parts = {id(x) for s in parts for x in walk(s.body)}
    out = []
    for s in spread:
        if parts and id(s) not in of_parts:  # what the block that ends last does is little
            out.append(Phase(place_of(raised, s)))
            continue
        inner = [x for x in walk(s.body) if isinstance(x, For | Par | Reduce)]
        leaves = [x for x in inner if not any(y in inner for y in walk(x.body))]
        along = _along(s, leaves, read) if leaves else False
        if along is None:
            return []
        out.append(Phase(place_of(raised, s), tuple(place_of(raised, x) for x in leaves), along))
    return out


def _blocks(raised: Kernel, seen: Sequence[KernelFacts]) -> float:
    """The fewest blocks that the loops of ``raised`` make at the sizes of ``seen``; infinite if it is not known."""
    names = {s.var.name for s in loops(raised) if _kinds(s) == {"block"}}
    counts = [prod(x.trip or inf for x in f.loops if x.name in names) for f in seen]
    return min(counts, default=inf)


def _along(outer: Loop, leaves: Sequence[For | Loop], read: Sequence[Access]) -> bool | None:
    """Whether the ``leaves`` move by one element through most of what they read that ``outer`` moves through, too; None
    where neither does."""
    inside = [a for a in read if any(x.stmt in leaves for x in a.axes)]
    both = [a for a in inside if a.moves(outer.var.name)] or inside
    moved = Counter[bool]()
    for a in both:
        moved[True] += any(a.pattern(x.var.name) == "unit" for x in leaves)
        moved[False] += a.pattern(outer.var.name) == "unit"
    return None if not moved.total() else moved[True] >= moved[False]


def _kinds(s: Loop) -> set[str]:
    return {lv.kind for lv in s.dist}


def _by_threads(s: Loop) -> bool:
    """Whether ``s`` is shared by the threads of one axis, one element after another."""
    threads = [lv for lv in s.dist if lv.kind in THREAD_LEVELS]
    return len(threads) == 1 and threads[0].axis in ("", "x") and {lv.kind for lv in s.dist} <= {*THREAD_LEVELS, "seq"}


__all__ = ["phases"]
