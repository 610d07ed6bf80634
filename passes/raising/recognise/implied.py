"""Conditions that enclosing loops and conditions already ensure.

par i in 0..n: if i < n && i >= 1: ..     ->     par i in 0..n: if i >= 1: ..
"""

from __future__ import annotations

import dataclasses

from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.comparisons import follows
from ktc.ir.fold import evaluate, is_const
from ktc.ir.nodes import Acc, Binary, Body, Expr, For, If, Par, Reduce, Select, Stmt, Sym, Var
from ktc.ir.walk import all_exprs, assigned, keep, map_body, map_expr, used
from ktc.passes.shared.conjuncts import conjuncts_of
from ktc.passes.shared.equal_integers import same
from ktc.passes.shared.loop_bounds import upper_bound

from .guards import lower_bound


def without_implied(body: Body, known: tuple[Expr, ...] = (), ranges: tuple[tuple[Sym, Expr, Expr], ...] = ()) -> Body:
    """Conditions that loop bounds and enclosing conditions already ensure, taken out."""
    out: list[Stmt] = []
    known = _lasting(known, body)
    for s in body:

        def on(e: Expr) -> Expr:
            if isinstance(e, Select):
                cond = _rest_of(e.cond, known, ranges)
                return e.a if cond is None else (e if cond is e.cond else Select(cond, e.a, e.b))
            return e

        if isinstance(s, If):
            cond = _rest_of(s.cond, known, ranges)
            inner = (*known, *conjuncts_of(s.cond))
            then = without_implied(s.then, inner, ranges)
            orelse = without_implied(s.orelse, known, ranges)
            if cond is None:
                out += then
            else:
                out.append(dataclasses.replace(s, cond=cond, then=then, orelse=orelse))
            continue
        if isinstance(s, Par | Reduce):
            here = (*ranges, (s.var, s.lo, s.hi))
            s = dataclasses.replace(s, body=without_implied(s.body, known, here))
            if isinstance(s, Reduce):
                s = dataclasses.replace(s, accs=tuple(_acc(a, known, here) for a in s.accs))
        elif isinstance(s, For):
            hi = upper_bound(s.cond, s.var)
            here = (*ranges, (s.var, s.init, hi)) if hi is not None and s.var not in assigned(s.body) else ranges
            s = dataclasses.replace(s, body=without_implied(s.body, known, here))
        else:
            s = map_body((s,), keep, on)[0] if any(isinstance(e, Select) for e in all_exprs((s,))) else s
        out.append(s)
    return tuple(out)


def _lasting(known: tuple[Expr, ...], body: Body) -> tuple[Expr, ...]:
    """Those of ``known`` that nothing in ``body`` can change."""
    changed = assigned(body)
    return tuple(k for k in known if not used(k) & changed)


def _acc(a: Acc, known: tuple[Expr, ...], ranges: tuple[tuple[Sym, Expr, Expr], ...]) -> Acc:
    return dataclasses.replace(a, value=map_expr(a.value, lambda e: _select(e, known, ranges)))


def _select(e: Expr, known: tuple[Expr, ...], ranges: tuple[tuple[Sym, Expr, Expr], ...]) -> Expr:
    if isinstance(e, Select):
        cond = _rest_of(e.cond, known, ranges)
        return e.a if cond is None else Select(cond, e.a, e.b)
    return e


def _rest_of(cond: Expr, known: tuple[Expr, ...], ranges: tuple[tuple[Sym, Expr, Expr], ...]) -> Expr | None:
    """What is left to be tested of ``cond``; None when nothing is."""
    parts = conjuncts_of(cond)
    left = [c for c in parts if not _implied(c, known, ranges)]
    if len(left) == len(parts):
        return cond
    out: Expr | None = None
    for c in left:
        out = c if out is None else Binary("&&", out, c)
    return out


def _implied(c: Expr, known: tuple[Expr, ...], ranges: tuple[tuple[Sym, Expr, Expr], ...]) -> bool:
    bounds = (b for v, lo, hi in ranges if hi is not None for b in (Binary("<", Var(v), hi), Binary(">=", Var(v), lo)))
    if any(c == k for k in known) or follows(c, (*known, *bounds)):
        return True
    for v, lo, hi in ranges:
        if _behind(c, v, hi):
            return True
        ub = upper_bound(c, v)
        if ub is not None and (ub == hi or same(ub, hi)):
            return True
        lb = lower_bound(c, v)
        if lb is not None and (lb == lo or same(lb, lo) or (is_const(lb) and is_const(lo) and lb.value <= lo.value)):  # type: ignore[attr-defined]
            return True
    return False


def _behind(c: Expr, v: Sym, hi: Expr) -> bool:
    """Whether ``c`` is ``v - k < hi`` with ``k >= 0``."""
    if not isinstance(c, Binary) or c.op != "<" or v in used(c.b):
        return False
    form = linear_form(c.a, {v})
    if form is None or not is_const(form.coeff(v), 1):
        return False
    k = evaluate(form.rest, {})
    return k is not None and _signed(int(k)) <= 0 and same(c.b, hi)


def _signed(k: int) -> int:
    """A 32-bit constant that was computed unsigned."""
    return k - (1 << 32) if k >> 31 == 1 else k


__all__ = ["without_implied"]
