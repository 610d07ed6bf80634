"""Sums over several loops: all of their terms shared by the threads of as many blocks as keep the device busy.

The mean of a channel is a sum over images around one over pixels; whoever wrote it gave the pixels to threads, or a
channel to each, and one length or the other is too short, or there are too few channels. Where the loops are one
(``join-sums``), there are terms for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from ktc.ir.analysis.access_nests import accesses
from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.analysis.planner_facts import facts as facts_at
from ktc.ir.analysis.uniformity import THREAD_LEVELS
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Par, Reduce
from ktc.ir.walk import walk
from ktc.passes.core.catalogue import PASSES
from ktc.passes.core.places import place_of
from ktc.passes.core.script import Step

from .nest_shapes import Idea
from .trials import after, wherever

NORMALISE = Step("normalise")

GAIN = 10.0
"""What threads of all units are worth against those of a few blocks, each of which waits for every load."""

WIDTHS = ("$V", 1)
"""Terms of an iteration: neighbouring ones in one access if they can be, else single ones."""

THREADS = 256
"""Threads of a block from which an expert starts."""

SHARED = "thread.x $T:(64,128,256,512), unroll $U:(1,2,4,8)"
ALONE = "thread.y $ROWS:(2,4,8,16)"
"""Levels of a sum that a block's threads share, and of sums that a warp has each."""

SHORT, MANY = 1024, 1 << 20
"""Terms of a sum up to which a warp may be enough for it, and as many as there are taken to be where nobody knows."""


def joined_sums(raised: Kernel, units: int, seen: Sequence[KernelFacts], able: Callable[[str], bool]) -> Iterator[Idea]:
    """Steps after ``raise`` with why and a guess of the gain, for a device of ``units`` compute units; ``seen``: facts
    at the sizes that it is tuned for, ``able`` says whether steps can be lowered."""
    before, kernel = wherever(raised, "normalise")
    for site in PASSES["join-sums"].sites(kernel):
        for width in WIDTHS:
            step = site.step.with_(width=width)
            joined = after(kernel, str(step))
            target = None if joined is None else _target(joined, kernel)
            if joined is None or target is None or (width != 1 and not _unit(joined, _inside(target))):
                continue
            for levels, why in _maps(joined, target, units, seen):
                steps = f"{before}{step} | {levels}"
                if able(steps):
                    yield steps, why, GAIN
            break


def _target(joined: Kernel, before: Kernel) -> Reduce | None:
    """The sum that ``join-sums`` has made."""
    old = {s.var for s in walk(before.body) if isinstance(s, Reduce)}
    found = [s for s in walk(joined.body) if isinstance(s, Reduce) and s.var not in old]
    return found[0] if found else None


def _inside(target: Reduce) -> set[str]:
    """The loops in ``target`` by name."""
    return {s.var.name for s in walk(target.body) if isinstance(s, Reduce)}


def _unit(kernel: Kernel, loops: set[str], within: str = "") -> bool:
    """Whether most of what moves along one of ``loops``, and along the loop ``within``, moves by one element."""
    found = [a for a in accesses(kernel) if a.space == "global" and (not within or a.moves(within))]
    moving = [a for a in found if any(a.moves(name) for name in loops)]
    return 2 * sum(any(a.pattern(name) == "unit" for name in loops) for a in moving) > len(moving)


def _maps(kernel: Kernel, target: Reduce, units: int, seen: Sequence[KernelFacts]) -> Iterator[tuple[str, str]]:
    """Levels of the sum and of the loops around it, and why."""
    around = [s for s in walk(kernel.body) if isinstance(s, Par) and any(x is target for x in walk(s.body))]
    rows, terms = _counts(kernel, around, target, seen)
    threads = [s for s in around if any(lv.kind in THREAD_LEVELS for lv in s.dist)]
    if len(threads) > 1 or not around:
        return
    taken = {lv.axis or "x" for s in around for lv in s.dist if lv.kind == "block"}
    inner = threads[0] if threads else around[-1]
    own = next((lv.axis or "x" for lv in inner.dist if lv.kind == "block"), "")
    free = [a for a in "xyz" if a not in taken]
    if not own and not free:
        return
    axis = own or free.pop(0)
    name, row = place_of(kernel, target), place_of(kernel, inner)
    parts = [n for k in (2, 4, 8, 16) if 1 < (n := units * k // rows) <= terms // THREADS]
    if _unit(kernel, {inner.var.name}, within=target.var.name):
        yield from _columns(row, name, axis, free)
        return
    if free and parts:
        blocks = ",".join(map(str, parts))
        shared = f"[{SHARED}, block.{free[0]} $P:({blocks}), seq]"
        yield f"map{{{row}=[block.{axis}] {name}={shared}}}", "blocks share the terms of a sum"
    yield f"map{{{row}=[block.{axis}] {name}=[{SHARED}, seq]}}", "the threads of a block share the terms of a sum"
    if terms <= SHORT and rows >= units:
        side = f"[{ALONE}, block.{axis}]"
        yield f"map{{{row}={side} {name}=[thread.x 32, unroll $U:(1,2,4), seq]}}", "a warp a sum, several a block"


def _columns(column: str, name: str, axis: str, free: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Neighbouring threads have neighbouring sums, others and other blocks share the terms of these."""
    across = f"{column}=[thread.x $TX:(16,32,64), block.{axis}]"
    for parts in (f", block.{free[0]} $P:(8,16,32,64)", "") if free else ("",):
        terms = f"{name}=[unroll $U:(1,2,4,8), thread.y $TY:(4,8,16,32){parts}, seq]"
        yield f"map{{{across} {terms}}}", "neighbouring sums side by side, threads and blocks share their terms"


def _counts(kernel: Kernel, around: Sequence[Par], target: Reduce, seen: Sequence[KernelFacts]) -> tuple[int, int]:
    """Sums, and terms of each, at the largest of the sizes that are tuned for; 1 and all where that is not known."""
    names = {s.var.name for s in around}
    found = [{x.name: x.trip for x in facts_at(kernel, f.sizes).loops} for f in seen]
    sums = max((prod(t.get(n) or 1 for n in names) for t in found), default=1)
    terms = max((t.get(target.var.name) or MANY for t in found), default=MANY)
    return max(sums, 1), terms


__all__ = ["joined_sums"]
