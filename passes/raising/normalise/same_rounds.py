"""Loops that begin and end at a place of the thread or its block, and that all go round as often, counted from zero.

before                                                    after
    for t = first + tid; t < first + n + tid; t + by          for q = 0; q < n; q + by
      use(t)                                                    let t = first + tid + q
                                                                use(t)

Recurrent kernels walk through a sequence so, the threads of a block side by side; products walk along a row of tiles.
"""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.counted_loops import distance, loop_step
from ktc.ir.arith.polynomial import from_polynomial, polynomial
from ktc.ir.fold import add, cast, i32, lt, simplify, sub
from ktc.ir.nodes import Binary, Body, Decl, Expr, For, HwIndex, Stmt, Sym, Var, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, map_body, used, walk_expr


def with_same_rounds(body: Body) -> Body:
    """``body`` with these loops."""
    known = definitions(body)
    return map_body(body, lambda s: _from_zero(s, known) if isinstance(s, For) else s)


def _from_zero(s: For, known: Mapping[Sym, Expr]) -> Stmt:
    t, by, ahead = s.var.type, loop_step(s), distance(s)
    if by is None or ahead is None or not isinstance(t, Scalar) or used(s.init) & assigned(s.body):
        return s
    end = from_polynomial(polynomial(expand(ahead, known)), t)
    if any(_is_placed(expand(e, known)) for e in (end, by)) or not _is_placed(expand(s.init, known)):
        return s
    down = isinstance(s.cond, Binary) and (s.cond.op in (">", ">=")) == (s.cond.a == Var(s.var))
    q, place = fresh(s.var.name, t), sub if down else add
    here = Decl(s.var, place(cast(s.init, t), Var(q)), const=True, loc=s.loc)
    step = simplify(sub(cast(i32(0), t), by)) if down else by
    return For(q, cast(i32(0), t), lt(Var(q), end), add(Var(q), cast(step, t)), (here, *s.body), s.unroll,
               loc=s.loc, comments=s.comments, tags=s.tags)  # fmt: skip


def _is_placed(e: Expr) -> bool:
    """Whether ``e`` is another number for other threads or blocks."""
    return any(isinstance(x, HwIndex) and x.level in ("thread", "block") for x in walk_expr(e))


__all__ = ["with_same_rounds"]
