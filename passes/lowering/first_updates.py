"""The first thing that an integer which starts at the neutral element of an operation is combined with is its value.

    int best = 2147483647;                      int best = 2147483647;
    if (i < n) best = min(best, x[i]);          if (i < n) best = x[i];

A thread that has one iteration of a reduction does nothing else. Not for floats: a sum that begins with 0 makes 0 of
-0, and a maximum that begins with -inf does not take a NaN.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.analysis.accumulators import identity
from ktc.ir.nodes import Assign, Binary, Body, Call, Const, Decl, Expr, If, Stmt, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import mentions, used, with_bodies

OPERATORS = frozenset({"+", "*", "&", "|", "^"})
EXTREMES = frozenset({"min", "max"})


def with_first_updates(body: Body) -> Body:
    """``body`` with first updates as assignments; see above."""
    out: list[Stmt] = [with_bodies(s, with_first_updates) for s in body]
    for k, s in enumerate(out):
        if isinstance(s, Decl) and isinstance(s.init, Const) and isinstance(t := s.sym.type, Scalar) and t.is_int:
            at = _first_use(out, k + 1, s.sym)
            if at is not None:
                out[at] = _first_assigned(out[at], s.sym, s.init)
    return body if all(a is b for a, b in zip(out, body)) else tuple(out)


def _first_use(body: list[Stmt], start: int, v: Sym) -> int | None:
    return next((k for k in range(start, len(body)) if v in mentions(body[k])), None)


def _first_assigned(s: Stmt, v: Sym, start: Const) -> Stmt:
    """``s``, the first statement that names ``v``, with the first update of ``v`` in it as an assignment."""
    if isinstance(s, Assign) and s.sym == v:
        value = _combined_with(s.value, v, start)
        return s if value is None or v in used(value) else dataclasses.replace(s, value=value)
    if isinstance(s, If) and not s.orelse and v not in used(s.cond):
        then = list(s.then)
        at = _first_use(then, 0, v)
        if at is not None and (first := _first_assigned(then[at], v, start)) is not then[at]:
            then[at] = first
            return dataclasses.replace(s, then=tuple(then))
    return s


def _combined_with(e: Expr, v: Sym, start: Const) -> Expr | None:
    """``x``, where ``e`` is ``v op x`` and ``start`` the neutral element of ``op``."""
    op, parts = "", (e, e)
    if isinstance(e, Binary) and e.op in OPERATORS:
        op, parts = e.op, (e.a, e.b)
    elif isinstance(e, Call) and e.fn in EXTREMES and len(e.args) == 2:
        op, parts = e.fn, (e.args[0], e.args[1])
    first, x = parts
    assert isinstance(v.type, Scalar)
    neutral = op and first == Var(v) and x.type == v.type and identity(op, v.type).value == start.value
    return x if neutral else None


__all__ = ["with_first_updates"]
