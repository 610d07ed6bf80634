"""Sums of a constant over a loop: how often the loop runs, times the constant.

before                                             after
    reduce(+) c: f32 = 0.0 over i in 0..n              let c: f32 = f32(max(n, 0))
      yield 1.0
"""

from __future__ import annotations

import dataclasses

from ktc.ir.analysis.accumulators import is_identity
from ktc.ir.fold import cast, i32, is_const, mul, simplify, sub
from ktc.ir.nodes import Acc, Body, Call, Const, Decl, Expr, Reduce, Stmt
from ktc.ir.types import I32, scalar_of


def without_constant_sums(s: Stmt) -> Stmt | Body:
    """``s`` without what it adds up that is the same in every iteration, behind what that comes to."""
    if not isinstance(s, Reduce):
        return s
    known = [a for a in s.accs if _is_constant(a)]
    if not known:
        return s
    trips = simplify(sub(cast(s.hi, I32), cast(s.lo, I32)))
    times = trips if isinstance(trips, Const) else Call("max", (trips, i32(0)), I32)
    named = tuple(Decl(a.sym, _times(times, a), const=True, loc=s.loc) for a in known)
    others = tuple(a for a in s.accs if a not in known)
    return (*named, dataclasses.replace(s, accs=others)) if others else named


def _is_constant(a: Acc) -> bool:
    return a.op == "+" and isinstance(a.value, Const) and is_identity(a.init, "+", scalar_of(a.sym.type))


def _times(times: Expr, a: Acc) -> Expr:
    t = scalar_of(a.sym.type)
    return cast(times, t) if is_const(a.value, 1) else simplify(mul(cast(times, t), cast(a.value, t)))


__all__ = ["without_constant_sums"]
