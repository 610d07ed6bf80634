"""Ideas for rows that are all multiplied by the same vector: several of them a thread, which reads that once for all.

A matrix of narrow numbers times a vector of wide ones reads more of the vector than of the matrix, if each row does so
by itself. Rows are whole groups where their number is a multiple at all sizes: then no thread has to ask, and what the
vector's elements are converted to is the same variable for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.access_nests import Access, accesses
from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import For, Par, Reduce
from ktc.ir.walk import walk
from ktc.passes.core.places import place_of

from .nest_shapes import Idea
from .trials import counting_on_multiples, wherever

GAIN = 9.0
"""A little more than that of the same rows by themselves: it only ranks the ideas."""

WHY = "several rows a thread, for which the vector is read once"

MULTIPLE = 32
"""What the number of rows is to be a multiple of: of as many as the threads of a block may have together."""

SHAPES = (
    ("unroll $R:(4,8,2), block.x", "vec $V, thread.x $T:(64,128,256), seq"),
    ("unroll $R:(4,2), thread.y $ROWS:(4,2), block.x", "vec $V, thread.x $LANES:(32,16), seq"),
)
"""Levels of the rows and of what is summed: a block some rows, or lanes a few rows each."""


@dataclass(frozen=True)
class Together:
    """``rows``, each of which adds up over ``along`` what it reads alone and what all read."""

    rows: Par
    along: Reduce


def rows_together(raised: Kernel, facts: Sequence[KernelFacts], able: Callable[[str], bool]) -> Iterator[Idea]:
    """Steps after ``raise`` with why and a guess of the gain; ``able`` says whether steps can be lowered."""
    before, kernel = wherever(raised, "normalise")
    found = _found(kernel)
    if found is None:
        return
    whole = counting_on_multiples([(without_index_casts(found.rows.hi), MULTIPLE)], facts)
    if not whole:
        return
    row, along = place_of(kernel, found.rows), place_of(kernel, found.along)
    for own, rest in SHAPES:
        steps = f"{whole}{before}map{{{row}=[{own}] {along}=[{rest}]}}"
        if able(steps):
            yield steps, WHY, GAIN


def _found(kernel: Kernel) -> Together | None:
    """The rows of ``kernel``, if it is nothing else and they read more of what all read than of their own."""
    match [s for s in walk(kernel.body) if isinstance(s, For | Par | Reduce)]:
        case [Par() as rows, Reduce() as along] if any(lv.kind == "block" for lv in rows.dist):
            read = [a for a in accesses(kernel) if a.mode == "read" and a.space == "global"]
            read = list({(a.buffer, a.flat): a for a in read if a.moves(along.var.name)}.values())
            own = [a for a in read if a.moves(rows.var.name)]
            shared = [a for a in read if not a.moves(rows.var.name)]
            return Together(rows, along) if own and sum(map(_bytes, shared)) > sum(map(_bytes, own)) else None
    return None


def _bytes(a: Access) -> int:
    return a.elem.bytes * (a.width if isinstance(a.width, int) else 1)


__all__ = ["rows_together"]
