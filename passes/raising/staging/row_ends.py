"""Rows that a block's threads take an element each of, in loops that end where the row does.

before                                            after
    reduce(+) s over tid in 0..256                    reduce(+) s over tid in 0..min(n, 256)
      var v: f32 = tid < n ? x[tid] : 0.0               var v: f32 = x[tid]
      yield v * v                                       yield v * v
    par tid in 0..256                                 par tid in 0..min(n, 256)
      if tid < n                                        y[tid] = x[tid] * scale
        y[tid] = x[tid] * scale

Threads without an element add nothing to a sum, and do nothing else. What lives in an array from one loop to the next
is left alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ktc.ir.analysis.accumulators import identity
from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.effects import has_effect
from ktc.ir.fold import cast, is_const, simplify
from ktc.ir.nodes import (
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Expr,
    Level,
    Par,
    Reduce,
    Select,
    Stmt,
    Unary,
)  # fmt: skip
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import all_exprs, assigned, declared, keep, map_body, map_expr, used, used_in
from ktc.passes.raising.normalise.nests import covers
from ktc.passes.raising.normalise.strided_rounds import without_guard
from ktc.passes.shared.loop_bounds import upper_bound


def with_row_ends(body: Body) -> Body:
    """``body`` with such loops."""
    return map_body(body, lambda s: _ended(s) if isinstance(s, Par | Reduce) else s)


def _ended(s: Par | Reduce) -> Stmt:
    by_threads = len(s.dist) == 1 and s.dist[0].kind == "thread" and is_const(s.lo, 0)
    arrays = {b for b in used_in(s.body) | assigned(s.body) if isinstance(b.type, Array)}
    if not by_threads or arrays - set(declared(s.body)):
        return s
    return _nest(s) if isinstance(s, Par) else _reduction(s)


def _nest(s: Par) -> Stmt:
    inner, end = without_guard(s.body, s.var)
    return s if end is None else _up_to(dataclasses.replace(s, body=inner), end)


def _reduction(s: Reduce) -> Stmt:
    for cond, end in _ends(s) if not any(map(has_effect, s.body)) else ():
        there, elsewhere = (_decided(s, cond, holds) for holds in (True, False))
        known = definitions(elsewhere.body)
        values = [(a, _number(expand(a.value, known))) for a in elsewhere.accs]
        if all(v is not None and v == identity(a.op, a.sym.type).value for a, v in values):  # type: ignore[arg-type]
            return _up_to(there, end)
    return s


def _ends(s: Reduce) -> Iterator[tuple[Expr, Expr]]:
    """Conditions of choices in ``s`` that say where a row ends, and where they say."""
    changing = {s.var, *declared(s.body), *assigned(s.body)}
    choices = dict.fromkeys(e.cond for e in all_exprs((s,)) if isinstance(e, Select))
    for cond in choices:
        end = upper_bound(cond, s.var)
        if end is not None and not used(end) & changing:
            yield cond, end


def _decided(s: Reduce, cond: Expr, holds: bool) -> Reduce:
    """``s`` where ``cond`` holds, or where it does not."""

    def on(e: Expr) -> Expr:
        return (e.a if holds else e.b) if isinstance(e, Select) and e.cond == cond else e

    accs = tuple(dataclasses.replace(a, value=map_expr(a.value, on)) for a in s.accs)
    return dataclasses.replace(s, body=map_body(s.body, keep, on), accs=accs)


def _up_to(s: Par | Reduce, end: Expr) -> Stmt:
    t = s.var.type
    assert isinstance(t, Scalar)
    whole, end = s.hi, cast(end, t)
    rounded = isinstance(whole, Binary) and whole.op == "*" and covers(whole.a, whole.b, end)
    hi = end if rounded else simplify(Call("min", (end, cast(whole, t)), t))
    return dataclasses.replace(s, hi=hi, dist=(*s.dist, Level("seq")))


def _number(e: Expr) -> float | None:
    """What ``e`` is, computed of numbers alone; None where it is not."""
    if isinstance(e, Const):
        return float(e.value)
    if isinstance(e, Cast) and e.style != "bit":
        return _number(e.x)
    if isinstance(e, Unary) and e.op == "-":
        x = _number(e.x)
        return None if x is None else -x
    if isinstance(e, Binary) and e.op in ("+", "-", "*"):
        a, b = _number(e.a), _number(e.b)
        if a is None or b is None:
            return None
        return a + b if e.op == "+" else a - b if e.op == "-" else a * b
    return None


__all__ = ["with_row_ends"]
