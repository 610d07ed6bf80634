"""Lanes for the loop with unit stride: threads take what each iteration of an outer loop went through alone.

A kernel that gives a thread a whole row (a token, a query) has its threads a row apart in memory, and so has one that
sums a column by a block; one that sums a column by a thread has too few of them. Schedules of the whole nest are
proposed that give neighbouring threads neighbouring elements: where the loops inside go through them, those take the
lanes and the outer loop takes blocks, or groups of lanes side by side; where the outer loop does, it takes the lanes,
and the loops inside are shared by other threads and by blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ktc.ir.analysis.access_nests import accesses
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import For, Par, Reduce
from ktc.ir.walk import walk
from ktc.passes.core.named_loops import Loop, loops
from ktc.passes.core.pipeline import apply_step
from ktc.passes.core.places import PARALLEL, place_of, places_of
from ktc.passes.core.refusals import Refused
from ktc.passes.core.script import Step

from .ideas import Idea

NORMALISE = Step("normalise")

GAIN = 8.0
"""What accesses side by side are worth against accesses a row apart: a sector has eight floats."""

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

WIDE = ("vec $V, ", "")
"""Before the levels of what moves by one element: wide accesses if they can be, else single ones."""


def lanes(raised: Kernel, able: Callable[[str], bool]) -> Iterator[Idea]:
    """Steps after ``raise`` with why and a guess of the gain; ``able`` says whether steps can be lowered."""
    normal = apply_step(raised, NORMALISE)
    kernel = raised if isinstance(normal, Refused) else normal.kernel
    before = "" if isinstance(normal, Refused) else f"{NORMALISE} | "
    for outer in loops(kernel):
        nest = _nest(kernel, outer)
        if nest is not None:
            for steps, why in nest.maps():
                first = next((x for x in (before + s for s in steps) if able(x)), None)
                if first is not None:
                    yield first, f"{why}: neighbouring lanes take neighbouring elements", GAIN
                    if nest.several and able(kept := f"{first} | row-cache{{loop={nest.inside[0]} keep=loaded}}"):
                        yield kept, f"{why}, its elements loaded once", GAIN
            return


@dataclass(frozen=True)
class Nest:
    """A loop and the loops inside it by name; ``across``: whether the outer one moves by one element."""

    outer: str
    inside: tuple[str, ...]
    across: bool

    @property
    def several(self) -> bool:
        """Whether each iteration of the outer loop goes several times through something."""
        return not self.across and (len(self.inside) > 1 or self.inside[0].endswith(".*"))

    def maps(self) -> Iterator[tuple[list[str], str]]:
        """Steps of which the first that can be lowered is meant, and why."""
        if self.across:
            for own, levels, why in ACROSS:
                inner = " ".join(f"{name}={levels}" for name in self.inside)
                yield [f"map{{{self.outer}=[{wide}{own}] {inner}}}" for wide in WIDE], why
        else:
            for levels, own, why in INSIDE:
                inners = (" ".join(f"{name}=[{wide}{own}]" for name in self.inside) for wide in WIDE)
                yield [f"map{{{self.outer}={levels} {inner}}}" for inner in inners], why


def _nest(kernel: Kernel, outer: Loop) -> Nest | None:
    """The nest of ``outer`` and the innermost loops inside it, where neighbouring threads are not at neighbouring
    elements today."""
    if not isinstance(outer, Par):
        return None
    inner = [s for s in walk(outer.body) if isinstance(s, For | Par | Reduce)]
    leaves = [s for s in inner if isinstance(s, Par | Reduce) and not any(x in inner for x in walk(s.body))]
    names = {s.var.name for s in leaves}
    found = [a for a in accesses(kernel) if a.space == "global" and names & {x.name for x in a.axes}]
    both = [a for a in found if a.moves(outer.var.name) and any(a.moves(s.var.name) for s in leaves)]
    found = both or found  # what is read once a row, or once a column, is little beside the matrix
    along = [s for s in leaves if any(a.pattern(s.var.name) == "unit" for a in found)]
    across = sum(a.pattern(outer.var.name) == "unit" for a in found)
    name = place_of(kernel, outer)
    if along and 2 * across <= len(found) and _has_threads(outer) and all(map(_is_serial, along)):
        return Nest(name, tuple(places_of(kernel, along, PARALLEL)), across=False)
    shared = not _has_threads(outer) and any(map(_has_threads, leaves))
    alone = all(isinstance(s, Reduce) and _is_serial(s) for s in leaves)
    if leaves and not along and across and (shared or alone):
        return Nest(name, tuple(places_of(kernel, leaves, PARALLEL)), across=True)
    return None


def _has_threads(loop: Loop) -> bool:
    return any(lv.kind in ("thread", "lane") for lv in loop.dist)


def _is_serial(loop: Loop) -> bool:
    """Whether each thread goes through ``loop`` alone."""
    return [lv.kind for lv in loop.dist] == ["seq"]
