"""Loops that count in unsigned or wider numbers, counted in ``int`` where their ranges say that it holds all of them.

before                                           after
    par row: u32 in 0_u32..M                         par row in 0..M
      for k: u32 in 0_u32..K                           for k in 0..K
        s += x[row * K + k]                              s += x[u32(row) * K + u32(k)]

``unsigned row = blockIdx.y * blockDim.y + threadIdx.y`` says nothing else than ``int row`` does, and many kernels are
written so, or with ``size_t``; passes look for loops that count in ``int``. What is computed from a counter keeps its
type. Ranges are those that the launcher tests.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.arith import REWRITES, Facts, Interval, facts_of
from ktc.ir.arith.counted_loops import Counting, loop_step, why_unsteady
from ktc.ir.arith.known_symbols import Loop
from ktc.ir.fold import add, cast, i32, lt
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Cast, Expr, For, Stmt, Sym, Var, fresh
from ktc.ir.types import I32, I64, U32, U64, Scalar
from ktc.ir.walk import map_body, substitute_expr

MOST = 2**31 - 1

OTHERS = (U32, I64, U64)


def counted_in_int(kernel: Kernel) -> Kernel:
    """``kernel`` with each of these loops that ends below 2^31, its last step included."""
    found: dict[Sym, tuple[Sym, Counting | None]] = {}
    for s, here in facts_of(kernel, REWRITES).visit(kernel.body):
        if isinstance(s, Loop) and (s.var.type in OTHERS or (s.var.type == I32 and _is_converted(s))):
            form = _counting(s) if isinstance(s, For) else None
            if _fits(s, form, here):
                found[s.var] = s.var if s.var.type == I32 else fresh(s.var.name, I32), form
    if not found:
        return kernel
    values: dict[Sym, Expr] = {v: Cast(v.type, Var(n), "implicit") for v, (n, _) in found.items() if v != n}

    def number(e: Expr) -> Expr:
        e = substitute_expr(e, values)
        return e.x if isinstance(e, Cast) and e.x.type == I32 else cast(e, I32)  # the same 32 bits

    def counted(s: Stmt) -> Stmt:
        if not isinstance(s, Loop) or s.var not in found:
            return s
        v, form = found[s.var]
        if not isinstance(s, For):
            return dataclasses.replace(s, var=v, lo=number(s.lo), hi=number(s.hi))
        assert form is not None
        cond, step = lt(Var(v), number(form.hi)), add(Var(v), number(form.by))
        return dataclasses.replace(s, var=v, init=number(form.lo), cond=cond, step=step)

    body = map_body(kernel.body, counted, lambda e: values.get(e.sym, e) if isinstance(e, Var) else e)
    return kernel.with_(body=body)


def _is_converted(s: Loop) -> bool:
    """Whether ``s`` compares its counter as a number of another type: ``int i`` with ``size_t n``."""
    return isinstance(s, For) and isinstance(s.cond, Binary) and isinstance(s.cond.a, Cast)


def _counting(s: For) -> Counting | None:
    """``s`` as a loop that counts up to a limit, in whatever type it compares the two."""
    by = loop_step(s)
    if by is None or not isinstance(s.cond, Binary) or _converted(s.cond.a) != Var(s.var):
        return None
    hi, t = s.cond.b, s.cond.b.type
    if s.cond.op not in ("<", "<=") or not isinstance(t, Scalar) or not t.is_int or t.bits < 32:
        return None
    return Counting(s.init, add(hi, cast(i32(1), t)) if s.cond.op == "<=" else hi, by)


def _converted(e: Expr) -> Expr:
    """What ``e`` is, before conversions to 32 bits or more."""
    while isinstance(e, Cast) and isinstance(e.to, Scalar) and e.to.is_int and e.to.bits >= 32:
        e = e.x
    return e


def _fits(s: Loop, form: Counting | None, facts: Facts) -> bool:
    if not isinstance(s, For):
        return _within(s.lo, s.hi, MOST, facts)
    if form is None or why_unsteady(s, form):
        return False
    step, least = facts.interval(form.by), 0 if _is_converted(s) else -MOST  # which a conversion may turn positive
    if not step.positive or step.high is None or not facts.interval(form.lo).within(Interval(least, MOST)):
        return False
    return _within(form.lo, form.hi, MOST - step.high, facts)


def _within(lo: Expr, hi: Expr, most: int, facts: Facts) -> bool:
    return facts.interval(lo).within(Interval(-MOST, MOST)) and facts.interval(hi).within(Interval(-MOST, most))


__all__ = ["counted_in_int"]
