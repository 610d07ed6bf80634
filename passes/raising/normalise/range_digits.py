"""Division and remainder by constants, resolved with what variables lie in where they stand.

(r * 32 + k) / 32, k in 0..32     ->    r            (r * 32 + k) % 32     ->    k

Index arithmetic is taken not to wrap: what comes out of raising is checked as a whole.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ktc.ir.arith import NATURAL, REWRITES, Facts, Interval
from ktc.ir.arith.elimination import interval_of
from ktc.ir.arith.polynomial import Polynomial, polynomial
from ktc.ir.fold import add, cast, is_const, mul, simplify, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Body, Const, Decl, Expr, For, If, Par, Reduce, Stmt
from ktc.ir.types import Scalar
from ktc.ir.walk import map_stmt_exprs

Ranges = Mapping[Expr, Interval]
"""What variables and hardware indices lie in."""


def resolved(body: Body, ranges: Ranges) -> Body:
    """``body`` with divisions resolved; ``ranges``: of what is in scope around it."""
    facts = Facts(Kernel("", (), None, body), REWRITES)
    for e, within in ranges.items():
        facts.narrow(e, within)
    return _list(body, facts)


def _list(body: Body, facts: Facts) -> Body:
    out: list[Stmt] = []
    for s in body:
        done = map_stmt_exprs(s, lambda e, here=facts: _divided(e, here))  # type: ignore[misc]
        if isinstance(s, For | Par | Reduce):
            done = dataclasses.replace(done, body=_list(s.body, facts.inside(s)))  # type: ignore[call-arg]
        elif isinstance(s, If):
            done = dataclasses.replace(done, then=_list(s.then, facts), orelse=_list(s.orelse, facts))  # type: ignore[call-arg]
        elif hasattr(s, "body"):
            done = dataclasses.replace(done, body=_list(s.body, facts))  # type: ignore[call-arg]
        elif isinstance(s, Decl):
            facts = facts.naming(s)
        out.append(done)
    return tuple(out)


def _divided(e: Expr, facts: Facts) -> Expr:
    if not (isinstance(e, Binary) and e.op in ("/", "%") and is_const(e.b)):
        return e
    t, n = e.a.type, int(e.b.value)  # type: ignore[attr-defined]
    if not isinstance(t, Scalar) or not t.is_int or n <= 0:
        return e
    p = polynomial(e.a)
    rest = {f: k for f, k in p.items() if k % n and f}
    least = interval_of(rest, facts).low
    number = p.get((), 0)
    multiple = (least + number) // n * n if least is not None else number // n * n
    if number - multiple:
        rest[()] = number - multiple
    whole = interval_of(p, facts)
    if not p or (len(rest) == len(p) and not multiple):
        return e if not whole.within(Interval(0, n - 1)) else Const(0, t) if e.op == "/" else e.a
    if not interval_of(rest, facts).within(Interval(0, n - 1)) or not whole.within(NATURAL):
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


__all__ = ["Ranges", "expression", "resolved"]
