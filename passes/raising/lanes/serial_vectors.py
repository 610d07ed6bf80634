"""Serial loops over vectors that add something up, as reductions: their vectors' elements are then found as a loop's
over threads are.

before                                          after
    for i in 0..n / 4                               reduce(+) s_1: f32 = s over i in 0..n / 4 @ [seq]
      var v: f32x4 = x[i * 4 +: 4]                    var v: f32x4 = x[i * 4 +: 4]
      ...                                             ...
      s += part                                       yield part
                                                    s = s_1
"""

from __future__ import annotations

from ktc.ir.analysis.effects import has_effect
from ktc.ir.arith.counted_loops import counting, why_unsteady
from ktc.ir.fold import cast
from ktc.ir.nodes import Acc, Assign, Body, For, Level, Reduce, Stmt, Store, Var, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import declared, map_body, walk
from ktc.passes.shared.accumulations import accumulations

from .wide_accesses import lanes_in


def as_reductions(body: Body) -> Body:
    """``body`` with such loops as reductions on one thread."""
    return map_body(body, lambda s: _reduced(s) if isinstance(s, For) else s)


def _reduced(s: For) -> Stmt | Body:
    form, split, t = counting(s), accumulations(s.body), s.var.type
    if not lanes_in(s.body) or form is None or not form.by_one or why_unsteady(s, form) or split is None:
        return s
    inner, sums = split
    stored = {x.buffer for x in walk(inner) if isinstance(x, Store)} - set(declared(inner))
    if not sums or stored or any(has_effect(x) for x in inner) or not isinstance(t, Scalar):
        return s
    accs = tuple(Acc(fresh(a.sym.name, a.sym.type), a.op, Var(a.sym), a.value) for a in sums)
    results = (Assign(a.sym, Var(acc.sym), loc=s.loc) for a, acc in zip(sums, accs))
    lo, hi = cast(form.lo, t), cast(form.hi, t)
    reduce = Reduce(accs, s.var, lo, hi, (Level("seq"),), inner, loc=s.loc, comments=s.comments, tags=s.tags)
    return (reduce, *results)


__all__ = ["as_reductions"]
