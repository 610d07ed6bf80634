"""Sums whose threads each take several elements, as far apart as there are threads, as one sum over all of them.

before                                              after
    reduce(+) s over t in 0..256 @ [thread.x 256]       reduce(+) s over t in 0..512 @ [thread.x 256, seq 2]
      yield x[b * 512 + t] + x[b * 512 + t + 256]         yield x[b * 512 + t]

What authors add up while they load it, before the threads hand anything on, is a choice of how many elements a thread
has: a level of the loop, which passes choose anew. A guess like all of this package, for the exact check to look at.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.analysis.accumulators import combining, operands
from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.fields import children, with_operands
from ktc.ir.fold import add, cast, evaluate, i32, mul
from ktc.ir.nodes import Const, Decl, Expr, Level, Load, Reduce, Var
from ktc.ir.purity import is_movable
from ktc.ir.types import Scalar
from ktc.ir.walk import substitute_expr
from ktc.passes.shared.equal_integers import same

MOST_TERMS = 16
"""Elements of a thread."""


def over_far_terms(s: Reduce) -> Reduce | None:
    """``s`` over all that its threads take; None if it is no such sum."""
    threads = evaluate(s.hi, {})
    if len(s.accs) != 1 or len(s.dist) != 1 or s.dist[0].kind != "thread" or evaluate(s.lo, {}) != 0 or not threads:
        return None
    if not all(isinstance(d, Decl) and d.init is not None and is_movable(d.init) for d in s.body):
        return None
    (acc,) = s.accs
    value = expand(acc.value, definitions(s.body, loads=True))
    if combining(value) != acc.op:
        return None
    terms = operands(value, acc.op)
    first = next((x for x in terms if _are_steps(s, x, terms, int(threads))), None)
    if first is None:
        return None
    n = i32(len(terms))
    t, dist = s.var.type, (*s.dist, Level("seq", n))
    assert isinstance(t, Scalar)
    whole = dataclasses.replace(acc, value=first)
    return dataclasses.replace(s, accs=(whole,), hi=cast(mul(s.hi, n), t), dist=dist, body=())


def _are_steps(s: Reduce, first: Expr, terms: list[Expr], threads: int) -> bool:
    """Whether ``terms`` are what ``first`` is for this thread, and for those so many ``threads`` behind it."""
    t = s.var.type
    assert isinstance(t, Scalar)
    if not 1 < len(terms) <= MOST_TERMS:
        return False
    left = list(terms)
    for k in range(len(terms)):
        wanted = substitute_expr(first, {s.var: add(Var(s.var), Const(k * threads, t))})
        found = next((x for x in left if _alike(x, wanted)), None)
        if found is None:
            return False
        left.remove(found)
    return True


def _alike(a: Expr, b: Expr) -> bool:
    """Whether the two are one expression, whatever way their indices are written."""
    t = a.type
    if isinstance(t, Scalar) and t.is_int and isinstance(b.type, Scalar) and b.type.is_int and not isinstance(a, Load):
        return same(a, b)
    mine, other = children(a), children(b)
    if type(a) is not type(b) or len(mine) != len(other):
        return False
    return (with_operands(b, mine)) == a and all(map(_alike, mine, other))


__all__ = ["over_far_terms"]
