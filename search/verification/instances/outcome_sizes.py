"""Sizes at which a condition that came out one way in every run comes out the other, or a choice chooses the other.

A tile that lies whole within its array has others on all sides: sizes that are large one at a time never show it. The
first thread of a block is followed with numbers (:mod:`ktc.search.verification.integers.first_thread`): if the
condition comes out the other way with all sizes as large as they get, or all but two, each is made as small as it can
be, one after the other, the others staying as they are. What these do not show the sizes of a scenario may.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktc.ir.interp.execution.evaluation_plans import QUOTIENTS
from ktc.ir.nodes import Binary, Call, Const, Expr, Stmt, Unary
from ktc.ir.types import BOOL
from ktc.search.verification.integers.first_thread import FIRST, LAST, MIDDLE, FirstThread, followed
from ktc.search.verification.integers.reaching import arguments, least_value

from .coverage import Coverage
from .instances import Instance, Maker
from .outcomes import one_sided
from .together import extremes


def sizes_for_outcomes(coverage: Coverage, original: Coverage, maker: Maker) -> Iterator[Instance]:
    """For every condition that is in doubt, the least sizes at which the first thread of a block meets the other
    outcome; of a condition that an earlier instance has settled, none."""
    base = maker.few()
    for s, e in one_sided(coverage, original) if base else ():
        for block in (MIDDLE, LAST, FIRST):
            if coverage.outcomes.get(id(e)) in (1, 2):
                yield from _least(coverage, maker, base, followed(coverage.candidate, *block), s, e)


def _least(
    coverage: Coverage, maker: Maker, base: Mapping[str, int], follow: FirstThread, s: Stmt, e: Expr
) -> Iterator[Instance]:
    other = _is(e, first=coverage.outcomes[id(e)] == 2)

    def holds(sizes: Mapping[str, int]) -> bool:
        return follow.holds(s, other, arguments(coverage.workload, sizes, coverage.candidate))

    start = next(filter(holds, extremes(maker, base)), None)
    if start is None:
        sizes = next((dict(x.sizes) for x in coverage.workload.scenarios if holds(x.sizes)), {})
    else:
        sizes = start
        for name, least in base.items():
            if sizes[name] > least:
                found = max(least_value(maker, sizes, name, holds), least)
                sizes = {**sizes, name: found} if holds({**sizes, name: found}) else sizes
    made = maker.make(sizes) if sizes else None
    if made is not None:
        yield made


def _is(e: Expr, first: bool) -> Expr:
    """That ``e`` is true, a quotient zero, a choice of integers (a minimum, a remainder) its first operand and no
    other; or, not ``first``, that it is not."""
    if isinstance(e, Call) and e.type != BOOL:
        return Binary("!=", e, e.args[int(first)])
    if isinstance(e, Binary) and e.type != BOOL:
        return Binary("==" if first else "!=", e, Const(0, e.type) if e.op in QUOTIENTS else e.a)  # type: ignore[arg-type]
    return e if first else Unary("!", e)


__all__ = ["sizes_for_outcomes"]
