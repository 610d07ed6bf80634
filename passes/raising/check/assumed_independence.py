"""What is taken for granted of loops of which a thread has several iterations: that these do not depend on each other.

Threads of the source that touched one element without an order would race. Two iterations of one thread have an order
there, and none in the loop. Where their elements are known to differ nothing is assumed; rows at a distance that is a
parameter are checked by the launcher; of anything else (a scatter) it is said. Facts are not asked whether the step
from one iteration's element to the next may be 0: where a thread has two iterations, other threads have one each, and
all of them would race over one element in the source. A block of one thread has no such loop after raising.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.polynomial import same_value
from ktc.ir.fold import cast, fold_node, simplify, sub
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import Binary, Const, Par
from ktc.ir.text import print_expr
from ktc.ir.types import Scalar
from ktc.ir.walk import used, walk
from ktc.passes.raising.raise_report import Region
from ktc.passes.shared.disjoint_rows import rows_of, touched
from ktc.passes.shared.independence import independent


def _strided(kernel: Kernel) -> Iterator[Par]:
    """Loops of which a thread has several iterations."""
    for s in walk(kernel.body):
        if isinstance(s, Par) and s.dist and s.dist[-1].kind == "seq" and any(lv.kind == "thread" for lv in s.dist):
            yield s


def spaced_rows(raised: Kernel) -> tuple[tuple[Assume, ...], tuple[Region, ...]] | None:
    """What must hold of the strides of rows that loops share out, and how to say it; None where they are not known to
    the launcher."""
    params = {p.sym for p in raised.params}
    named = definitions(raised.body)
    facts: dict[Assume, dict[str, None]] = {}
    trusted: list[Region] = []
    for s in _strided(raised):
        if why := independent(s.var, s.body, sub(s.hi, s.lo), s.lo):
            trusted.append(Region("assumed", f"iterations over '{s.var.name}' do not depend on each other", why, s.loc))
            continue
        for buffer, t in touched(s.body).items():
            rows = rows_of(s.var, s.lo, t)
            if rows is None:
                continue
            stride, span = (simplify(expand(e, named)) for e in (rows.stride, rows.span))
            if (used(stride) | used(span)) - params:
                return None
            if same_value(stride, span):
                continue
            wide = stride.type
            assert isinstance(wide, Scalar)
            apart = fold_node(Binary(">=", stride, cast(span, wide)))
            some = fold_node(Binary(">=", span, Const(0, span.type)))  # type: ignore[arg-type]
            fact = Assume(simplify(Binary("&&", apart, some)), "guessed")
            facts.setdefault(fact, {})[buffer.name] = None
    said = tuple(Region("assumed", f"rows of {', '.join(map(repr, names))} do not overlap: {print_expr(fact.expr)}")
                 for fact, names in facts.items())  # fmt: skip
    return tuple(facts), (*said, *trusted)


__all__ = ["spaced_rows"]
