"""Conditions that enclosing loops and conditions already ensure.

par i in 0..n: if i < n && i >= 1: ..     ->     par i in 0..n: if i >= 1: ..

Sums and products of index arithmetic are taken not to wrap: what comes out of raising is checked as a whole.
Differences are not: that they wrap is what ``unsigned(i - 3) < n`` asks of both ends at once.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.arith import REWRITES, Facts
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Body, Expr, For, If, Par, Reduce, Scan, Select, Stmt
from ktc.ir.walk import all_exprs, keep, map_body, map_expr, walk
from ktc.passes.shared.conjuncts import conjuncts_of

TRUSTED = dataclasses.replace(REWRITES, no_wrap=True, counters=True)


def without_implied(body: Body) -> Body:
    """``body`` without conditions that loop bounds and enclosing conditions already ensure."""
    if not any(isinstance(s, If) for s in walk(body)) and not any(isinstance(e, Select) for e in all_exprs(body)):
        return body
    return _list(body, Facts(Kernel("", (), None, body), TRUSTED))


def _list(body: Body, facts: Facts) -> Body:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, If):
            cond = _rest_of(s.cond, facts)
            then, orelse = _list(s.then, facts.under(s.cond)), _list(s.orelse, facts)
            out += then if cond is None else (dataclasses.replace(s, cond=cond, then=then, orelse=orelse),)
        elif isinstance(s, Par | Reduce | Scan | For):
            out.append(_loop(s, facts))
        else:
            has_choice = any(isinstance(e, Select) for e in all_exprs((s,)))
            out += map_body((s,), keep, lambda e: _select(e, facts)) if has_choice else (s,)
    return tuple(out)


def _loop(s: Par | Reduce | Scan | For, facts: Facts) -> Stmt:
    here = facts.inside(s)
    if not isinstance(s, For):
        here = here.under(Binary("<", s.lo, s.hi))  # else there is no iteration
    body = _list(s.body, here)
    if isinstance(s, Reduce):
        accs = tuple(dataclasses.replace(a, value=map_expr(a.value, lambda e: _select(e, here))) for a in s.accs)
        return dataclasses.replace(s, body=body, accs=accs)
    if isinstance(s, Scan):
        acc = dataclasses.replace(s.acc, value=map_expr(s.acc.value, lambda e: _select(e, here)))
        return dataclasses.replace(s, body=body, acc=acc, then=_list(s.then, here))
    return dataclasses.replace(s, body=body)


def _select(e: Expr, facts: Facts) -> Expr:
    if not isinstance(e, Select):
        return e
    cond = _rest_of(e.cond, facts)
    return e.a if cond is None else e if cond is e.cond else Select(cond, e.a, e.b)


def _rest_of(cond: Expr, facts: Facts) -> Expr | None:
    """What is left to be tested of ``cond``; None when nothing is."""
    parts = conjuncts_of(cond)
    left = [c for c in parts if not facts.truth(c)]
    if len(left) == len(parts):
        return cond
    out: Expr | None = None
    for c in left:
        out = c if out is None else Binary("&&", out, c)
    return out


__all__ = ["without_implied"]
