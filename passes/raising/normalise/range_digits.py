"""Division and remainder by constants, resolved with the ranges of loop variables.

(r * 32 + k) / 32, k in 0..32     ->    r            (r * 32 + k) % 32     ->    k
"""

from __future__ import annotations

import dataclasses

from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.polynomial import Polynomial, polynomial
from ktc.ir.fold import add, cast, evaluate, is_const, mul, simplify, sub
from ktc.ir.nodes import Binary, Body, Call, Const, Decl, Expr, For, HwIndex, If, Par, Reduce, Stmt, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, map_expr, map_stmt_exprs, walk
from ktc.passes.shared.loop_bounds import upper_bound

Range = tuple[int, int | None]
"""Least and greatest value; no greatest value is known when it is None."""


def resolved(body: Body, ranges: dict[object, Range]) -> Body:
    """``body`` with divisions resolved; ``ranges`` of variables and hardware indices in scope."""
    constants = _constants(body)
    return _list(body, dict(ranges), {**constants})


def _list(body: Body, ranges: dict[object, Range], consts: dict[Sym, Expr]) -> Body:
    out: list[Stmt] = []
    for s in body:
        s = map_stmt_exprs(s, lambda e, r=dict(ranges): _divided(e, r))  # type: ignore[misc]
        if isinstance(s, Decl) and s.init is not None and s.sym in consts:
            r = interval(s.init, ranges)
            if r is not None:
                ranges[s.sym] = r
        inner = dict(ranges)
        if isinstance(s, For | Par | Reduce):
            r = _loop_range(s, ranges)
            if r is not None:
                inner[s.var] = r
            s = dataclasses.replace(s, body=_list(s.body, inner, consts))
        elif isinstance(s, If):
            s = dataclasses.replace(s, then=_list(s.then, inner, consts), orelse=_list(s.orelse, inner, consts))
        elif hasattr(s, "body"):
            s = dataclasses.replace(s, body=_list(s.body, inner, consts))  # type: ignore[call-arg]
        out.append(s)
    return tuple(out)


def _constants(body: Body) -> dict[Sym, Expr]:
    changed = assigned(body)
    return {s.sym: s.init for s in walk(body) if isinstance(s, Decl) and s.init is not None and s.sym not in changed
            and isinstance(s.sym.type, Scalar) and s.sym.type.is_int}  # fmt: skip


def _loop_range(s: For | Par | Reduce, ranges: dict[object, Range]) -> Range | None:
    if isinstance(s, For):
        lo, hi = s.init, upper_bound(s.cond, s.var)
        step = polynomial(sub(s.step, Var(s.var)))
        if s.var in assigned(s.body) or any(v < 0 for v in step.values()) or hi is None:
            return None
    else:
        lo, hi = s.lo, s.hi
    low = interval(lo, ranges)
    if low is None:
        return None
    high = interval(hi, ranges) if hi is not None else None
    return low[0], (high[1] - 1 if high is not None and high[1] is not None else None)


def interval(e: Expr, ranges: dict[object, Range]) -> Range | None:
    """Bounds of an integer expression; None when no least value is known."""
    e = without_index_casts(e)
    v = evaluate(e, {})
    if v is not None:
        return int(v), int(v)
    if isinstance(e, Var):
        return ranges.get(e.sym)
    if isinstance(e, HwIndex):
        return ranges.get(e, (0, None))
    if isinstance(e, Binary) and e.op in ("/", "%") and is_const(e.b) and e.b.value > 0:  # type: ignore[attr-defined]
        a, n = interval(e.a, ranges), e.b.value  # type: ignore[attr-defined]
        if a is None or a[0] < 0:
            return None
        if e.op == "%":
            return 0, n - 1 if a[1] is None else min(n - 1, a[1])
        return a[0] // n, None if a[1] is None else a[1] // n
    if isinstance(e, Call) and e.fn == "cdiv":
        return (0, None)
    if isinstance(e, Binary) and e.op in ("+", "-", "*"):
        return _of_polynomial(polynomial(e), ranges)
    return None


def _of_polynomial(p: Polynomial, ranges: dict[object, Range]) -> Range | None:
    lo, hi = 0, 0
    top = True
    for factors, k in p.items():
        a, b = 1, 1
        known = True
        for f in factors:
            r = interval(f, ranges) if not isinstance(f, Binary) or f.op in ("/", "%") else None
            if r is None or r[0] < 0:
                if len(factors) > 1 or r is None or r[1] is None:
                    return None
                a, b = r[0], r[1]
                continue
            a *= r[0]
            if r[1] is None:
                known = False
            else:
                b *= r[1]
        if k < 0:
            if not known:
                return None
            lo, hi = lo + k * b, hi + k * a
        else:
            lo = lo + k * a
            hi, top = (hi + k * b, top) if known else (hi, False)
    return lo, hi if top else None


def _divided(e: Expr, ranges: dict[object, Range]) -> Expr:
    if not (isinstance(e, Binary) and e.op in ("/", "%") and is_const(e.b)):
        return e
    t, n = e.a.type, int(e.b.value)  # type: ignore[attr-defined]
    if not isinstance(t, Scalar) or not t.is_int or n <= 0:
        return e
    p = polynomial(e.a)
    rest = {f: k for f, k in p.items() if k % n and f}
    least = _of_polynomial(rest, ranges)
    number = p.get((), 0)
    multiple = (least[0] + number) // n * n if least is not None else number // n * n
    if number - multiple:
        rest[()] = number - multiple
    if not p or (len(rest) == len(p) and not multiple):
        whole = interval(e.a, ranges)
        if whole is not None and whole[0] >= 0 and whole[1] is not None and whole[1] < n:
            return Const(0, t) if e.op == "/" else e.a
        return e
    r, whole = _of_polynomial(rest, ranges), _of_polynomial(p, ranges)
    if r is None or r[0] < 0 or r[1] is None or r[1] >= n or whole is None or whole[0] < 0:
        return e
    if e.op == "%":
        return expression(rest, t)
    whole_part = {f: k // n for f, k in p.items() if k % n == 0 and f}
    return expression({**whole_part, (): multiple // n} if multiple else whole_part, t)


def expression(p: Polynomial, t: Scalar) -> Expr:
    out: Expr | None = None
    for factors, k in p.items():
        term: Expr | None = None
        for f in factors:
            term = cast(f, t) if term is None else mul(term, cast(f, t))
        if term is None:
            term = Const(abs(k), t)
        elif abs(k) != 1:
            term = mul(term, Const(abs(k), t))
        if out is None:
            out = term if k > 0 else sub(Const(0, t), term)
        else:
            out = add(out, term) if k > 0 else sub(out, term)
    return simplify(out) if out is not None else Const(0, t)


__all__ = ["Range", "expression", "interval", "map_expr", "resolved"]
