"""Ideas for sums whose terms share a factor group by group: quantised weights, as many of which have one scale.

A group's terms are added up by themselves and multiplied once: of weights of four bits that leaves half of the
products. Rows stand side by side on lanes that take a group each; where the number of rows is known to be a multiple, a
thread has several, so that what their terms are multiplied by is converted once for all. Where terms are a row of
memory apart and columns side by side, these stand on lanes, and other threads and blocks share the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.access_nests import accesses
from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.planner_facts import KernelFacts
from ktc.ir.arith.counted_loops import counting
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.fold import is_const
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Const, For, Par, Var
from ktc.ir.walk import all_exprs, loads_in, walk, walk_expr
from ktc.passes.core.named_loops import narrowest_element
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refused, attempted
from ktc.passes.lowering.value_facts import ACCESS_BYTES
from ktc.passes.shared.sum_updates import sum_update

from .nest_shapes import Idea
from .trials import counting_on_multiples

GAIN = 9.0
"""A little more than that of the same nest with a product a term (:mod:`.lanes`): it only ranks the ideas."""

SHORTEST, LONGEST = 4, 128
"""Terms of a group, at least and at most: what a lane adds up at a time."""

ROWS_A_THREAD, ROWS_A_BLOCK = 4, 16
"""Rows that a thread adds up beside each other, and what their number is to be a multiple of for that."""


COLUMN_TERMS = 32
"""Terms that a thread adds up at a time where the groups of a column are shared: of fewer, few threads have any."""


@dataclass(frozen=True)
class Grouped:
    """``loop`` adds up inside the parallel loop ``rows``; ``group`` of its terms in a row share a factor."""

    rows: Par
    loop: For
    group: int


def grouped_sums(raised: Kernel, facts: Sequence[KernelFacts], able: Callable[[str], bool]) -> Iterator[Idea]:
    """Steps after ``raise`` with why and a guess of the gain; ``able`` says whether steps can be lowered."""
    for found in _found(raised):
        name, row = place_of(raised, found.loop), place_of(raised, found.rows)
        if _is_column(raised, found):
            yield from _of_columns(row, name, min(found.group, COLUMN_TERMS), able)
            continue
        apart = _apart(name, found.group)
        lanes = min(found.group, ACCESS_BYTES // narrowest_element(found.loop))
        rest = found.group // lanes
        inside = f"vec {lanes}, unroll {rest}" if rest > 1 else f"vec {lanes}"
        for before, own in _of_rows(found.rows, facts):
            levels = f"{row}=[{own}thread.y $ROWS:(2,4,1), block.x] {name}_tile=[thread.x $LANES:(16,32,8), seq]"
            steps = f"{before}{apart} | normalise | map{{{levels} {name}=[{inside}]}}"
            if able(steps):
                yield steps, f"{found.group} terms share a factor: they are added up first, and multiplied once", GAIN


def _apart(loop: str, terms: int) -> str:
    return f"tile{{loops={loop} sizes={terms} tail=exact}} | licm{{loop={loop}}} | factor-out{{loop={loop}}}"


def _is_column(raised: Kernel, found: Grouped) -> bool:
    """Whether some terms are a row apart, and those of neighbouring sums are not."""
    row, term = found.rows.var.name, found.loop.var.name
    around = [
        {x.name: a.pattern(x.name) for x in a.axes}
        for a in accesses(raised)
        if a.mode == "read" and any(x.stmt is found.loop for x in a.axes)
    ]
    return any(x.get(term) == "strided" and x.get(row) in ("unit", "irregular") for x in around)


def _of_columns(column: str, term: str, terms: int, able: Callable[[str], bool]) -> Iterator[Idea]:
    """Columns on lanes, several a thread; groups of ``terms`` shared by threads, and by blocks where that can be."""
    for blocks in ("block.y $P:(4,8,16,32), ", ""):
        levels = f"{column}=[vec $V, thread.x $TX:(8,16,32), block.x] {term}_tile=[thread.y $TY:(4,8,16), {blocks}seq]"
        steps = f"{_apart(term, terms)} | normalise | map{{{levels} {term}=[unroll {terms}]}}"
        if able(steps):
            yield steps, f"{terms} terms of a column share a factor: they are added up first, and multiplied once", GAIN


def _of_rows(rows: Par, facts: Sequence[KernelFacts]) -> Iterator[tuple[str, str]]:
    """Steps in front, and the level of rows that a thread has: several where no row has to be asked for."""
    whole = counting_on_multiples([(without_index_casts(rows.hi), ROWS_A_BLOCK)], facts)
    if whole:
        yield whole, f"unroll {ROWS_A_THREAD}, "
    yield "", ""


def _found(raised: Kernel) -> Iterator[Grouped]:
    for rows in (s for s in raised.body if isinstance(s, Par)):
        if any(isinstance(s, Par) for s in walk(rows.body)):
            continue
        for loop in (s for s in walk(rows.body) if isinstance(s, For)):
            shared = (n for n in groups_of(loop) if SHORTEST <= n <= LONGEST and n & (n - 1) == 0)
            group = min(shared, default=None)
            if group is not None and not isinstance(attempted(sum_update, loop, "E-FACTOR-LOOP"), Refused):
                yield Grouped(rows, loop, group)


def groups_of(loop: For) -> set[int]:
    """How many iterations in a row of ``loop``, which counts from 0, load something from one place, while others move
    on: of each such place."""
    form = counting(loop)
    if form is None or not is_const(form.lo, 0) or not isinstance(form.by, Const):
        return set()
    names = definitions(loop.body)
    return {
        int(q.b.value) // int(form.by.value)
        for e in all_exprs(loop.body)
        for load in loads_in(e)
        for i in load.index
        for q in walk_expr(expand(i, names))
        if isinstance(q, Binary) and q.op == "/" and without_index_casts(q.a) == Var(loop.var)
        and isinstance(q.b, Const) and q.b.value % form.by.value == 0
    }  # fmt: skip


__all__ = ["grouped_sums", "groups_of"]
