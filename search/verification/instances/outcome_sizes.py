"""Sizes at which a condition that came out one way in every run comes out the other, or a choice chooses the other.

A tile that lies whole within its array has others on all sides: sizes that are large one at a time never show it. The
first thread of a block is followed with numbers (:mod:`ktc.search.verification.integers.first_thread`): if the
condition comes out the other way with all sizes as large as they get, or all but two, each is made as small as it can
be, one after the other, the others staying as they are. What these do not show the sizes of a scenario may.

How a loop goes on that data decide cannot be followed. Sizes that a condition in it compares with are made small, one
value after the other: ``child + 1 < n`` of a heap is false in the last node of one with an even number of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktc.ir.interp.execution.evaluation_plans import QUOTIENTS
from ktc.ir.nodes import AsyncCopy, Binary, Call, Const, Expr, Stmt, Unary, Var
from ktc.ir.types import BOOL
from ktc.ir.walk import walk_expr
from ktc.search.verification.integers.first_thread import FIRST, LAST, MIDDLE, FirstThread, followed
from ktc.search.verification.integers.reaching import arguments, least_value
from ktc.search.verification.integers.statement_context import has_part

from .coverage import Coverage
from .instances import Instance, Maker
from .outcomes import open_to_sizes
from .together import extremes

SMALL = 5
"""First values of a size, among which both outcomes of what depends on its parity, or on a few more, are found."""

LARGE = 4
"""Instances whose other sizes are tried with them: large ones reach code behind whole tiles."""


def sizes_for_outcomes(coverage: Coverage, original: Coverage, maker: Maker) -> Iterator[Instance]:
    """For every condition that is in doubt, the least sizes at which the first thread of a block meets the other
    outcome; of a condition that an earlier instance has settled, none."""
    base = maker.few()
    for s, e in open_to_sizes(coverage, original) if base else ():
        for block in (MIDDLE, LAST, FIRST):
            if coverage.outcomes.get(id(e)) in (1, 2):
                yield from _least(coverage, maker, base, followed(coverage.candidate, *block), s, e)
        for sizes in _small_values(coverage, maker, base, e):
            made = maker.make(sizes) if coverage.outcomes.get(id(e)) in (1, 2) else None
            if made is not None:
                yield made


def _small_values(coverage: Coverage, maker: Maker, base: Mapping[str, int], e: Expr) -> Iterator[Mapping[str, int]]:
    """``base``, and what was tried and reached most, with each size that ``e`` asks about at each of its first
    values."""
    asked = {x.sym.name for x in walk_expr(e) if isinstance(x, Var)}
    sizes = [a.value for a in coverage.workload.args if a.role == "scalar" and a.name in asked]
    large = sorted(coverage.tried, key=lambda i: -i.cost)[:LARGE]
    for name in (n for n in maker.names if n in sizes):
        for others in (base, *(i.sizes for i in large)):
            yield from ({**others, name: maker.steps[name].at(k)} for k in range(1, SMALL + 1))


def _least(
    coverage: Coverage, maker: Maker, base: Mapping[str, int], follow: FirstThread, s: Stmt, e: Expr
) -> Iterator[Instance]:
    other = _is(e, first=coverage.outcomes[id(e)] == 2)
    met = _where_met(s, e, other)
    for wanted in (met, other) if met is not other else (met,):  # that one thread's copy is valid may be hard to see
        made = _least_for(coverage, maker, base, follow, s, wanted)
        if made is not None:
            yield made
            return


def _least_for(
    coverage: Coverage, maker: Maker, base: Mapping[str, int], follow: FirstThread, s: Stmt, wanted: Expr
) -> Instance | None:
    def holds(sizes: Mapping[str, int]) -> bool:
        return follow.holds(s, wanted, arguments(coverage.workload, sizes, coverage.candidate))

    start = next(filter(holds, extremes(maker, base)), None)
    if start is None:
        sizes = next((dict(x.sizes) for x in coverage.workload.scenarios if holds(x.sizes)), {})
    else:
        sizes = start
        for name, least in base.items():
            if sizes[name] > least:
                found = max(least_value(maker, sizes, name, holds), least)
                sizes = {**sizes, name: found} if holds({**sizes, name: found}) else sizes
    for name in maker.names if sizes else ():  # whole tiles of a size, of which one is enough
        one = maker.steps[name].at(1)
        if 1 < one < sizes[name] and holds({**sizes, name: one}) and maker.make({**sizes, name: one}) is not None:
            sizes = {**sizes, name: one}
    return maker.make(sizes) if sizes else None


def _where_met(s: Stmt, e: Expr, holds: Expr) -> Expr:
    """``holds``, where ``s`` comes to ``e`` at all: the place that a copy reads is none where it is not valid."""
    if isinstance(s, AsyncCopy) and s.valid is not None and any(has_part(i, e) for i in s.src_index):
        return Binary("&&", s.valid, holds)
    return holds


def _is(e: Expr, first: bool) -> Expr:
    """That ``e`` is true, a quotient zero, a choice of integers (a minimum, a remainder) its first operand and no
    other; or, not ``first``, that it is not."""
    if isinstance(e, Call) and e.type != BOOL:
        return Binary("!=", e, e.args[int(first)])
    if isinstance(e, Binary) and e.type != BOOL:
        return Binary("==" if first else "!=", e, Const(0, e.type) if e.op in QUOTIENTS else e.a)  # type: ignore[arg-type]
    return e if first else Unary("!", e)


__all__ = ["sizes_for_outcomes"]
