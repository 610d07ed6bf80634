"""Loops that begin and end at a place of the thread, and that all threads go round as often, counted from zero.

before                                                    after
    for t = first + tid; t < first + n + tid; t + by          for q = 0; q < n; q + by
      use(t)                                                    let t = first + tid + q
                                                                use(t)

Recurrent kernels walk through a sequence so, the threads of a block side by side.
"""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.counted_loops import counting, why_unsteady
from ktc.ir.arith.polynomial import from_polynomial, polynomial
from ktc.ir.fold import add, cast, i32, lt, sub
from ktc.ir.nodes import Body, Decl, Expr, For, Stmt, Sym, Var, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, map_body, used
from ktc.passes.raising.recognise.coordinates import depends_on_thread


def with_same_rounds(body: Body) -> Body:
    """``body`` with these loops."""
    known = definitions(body)
    return map_body(body, lambda s: _from_zero(s, known) if isinstance(s, For) else s)


def _from_zero(s: For, known: Mapping[Sym, Expr]) -> Stmt:
    form, t = counting(s), s.var.type
    if form is None or why_unsteady(s, form) or not isinstance(t, Scalar) or not t.is_signed:
        return s
    distance = polynomial(sub(form.hi, form.lo))
    end = from_polynomial(distance, t)
    begins = depends_on_thread(expand(form.lo, known))
    if (
        not begins
        or used(form.lo) & assigned(s.body)
        or any(depends_on_thread(expand(e, known)) for e in (end, form.by))
    ):
        return s
    q = fresh(s.var.name, t)
    place = Decl(s.var, add(cast(form.lo, t), Var(q)), const=True, loc=s.loc)
    return For(q, cast(i32(0), t), lt(Var(q), end), add(Var(q), cast(form.by, t)), (place, *s.body), s.unroll,
               loc=s.loc, comments=s.comments, tags=s.tags)  # fmt: skip


__all__ = ["with_same_rounds"]
