"""Rows that a block's threads take an element each of, in loops that end where the row does.

before                                            after
    reduce(+) s over tid in 0..256                    reduce(+) s over tid in 0..min(n, 256)
      var v: f32 = tid < n ? x[tid] : 0.0               var v: f32 = x[tid]
      yield v * v                                       yield v * v
    par tid in 0..256                                 par tid in 0..min(n, 256)
      if tid < n                                        y[tid] = x[tid] * scale
        y[tid] = x[tid] * scale

Threads without an element add nothing to a sum, and do nothing else; nor do those that have a known number of elements,
or vectors, each. What lives in an array from one loop to the next is left alone.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

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
    Decl,
    Expr,
    If,
    Level,
    Par,
    Reduce,
    Select,
    Stmt,
    Unary,
)  # fmt: skip
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import all_exprs, assigned, declared, map_body, map_expr, used, used_in, walk
from ktc.passes.raising.lanes.scalar_lanes import Lanes, NotLanes
from ktc.passes.raising.normalise.guards_as_ends import let_through
from ktc.passes.raising.normalise.nests import covers
from ktc.passes.shared.conjuncts import conjuncts_of
from ktc.passes.shared.loop_bounds import upper_bound


def with_row_ends(body: Body, *, of_any_length: bool = False) -> Body:
    """``body`` with such loops; ``of_any_length``: also those of which threads have any number of elements."""
    return map_body(body, lambda s: _ended(s, of_any_length) if isinstance(s, Par | Reduce) else s)


def _ended(s: Par | Reduce, of_any_length: bool) -> Stmt:
    known = of_any_length or all(lv.n is not None for lv in s.dist)
    by_threads = known and bool(s.dist) and s.dist[0].kind == "thread"
    arrays = {b for b in used_in(s.body) | assigned(s.body) if isinstance(b.type, Array)}
    if not by_threads or not is_const(s.lo, 0) or arrays - set(declared(s.body)):
        return s
    conditions = _conditions(s)
    for end in dict.fromkeys(conditions.values()):
        mine = {c for c, other in conditions.items() if other == end}
        there, elsewhere = (_decided(s, mine, holds) for holds in (True, False))
        if not any(map(has_effect, elsewhere.body)) and _adds_nothing(elsewhere):
            return _up_to(there, end)
    return s


def _conditions(s: Par | Reduce) -> dict[Expr, Expr]:
    """The conditions of choices and branches in ``s`` that say where a row ends, and where they say."""
    asked = [e.cond for e in all_exprs((s,)) if isinstance(e, Select)]
    asked += [x.cond for x in walk(s.body) if isinstance(x, If)]
    changing, known = {s.var, *declared(s.body), *assigned(s.body)}, definitions(s.body)
    ends = {c: upper_bound(expand(c, known), s.var) for cond in asked for c in conjuncts_of(cond)}
    return {c: end for c, end in ends.items() if end is not None and not used(end) & changing}


def _decided(s: Par | Reduce, mine: Container[Expr], holds: bool) -> Par | Reduce:
    """``s`` where the conditions ``mine`` hold, or where they do not."""

    def statement(x: Stmt) -> Stmt | Body:
        parts = conjuncts_of(x.cond) if isinstance(x, If) else []
        left = [c for c in parts if c not in mine]
        if not isinstance(x, If) or len(left) == len(parts):
            return x
        if not holds:
            return x.orelse
        return let_through((), x, left) if not x.orelse else x if left else x.then

    def value(e: Expr) -> Expr:
        return (e.a if holds else e.b) if isinstance(e, Select) and e.cond in mine else e

    body = map_body(s.body, statement, value)
    if isinstance(s, Reduce):
        return replace(s, body=body, accs=tuple(replace(a, value=map_expr(a.value, value)) for a in s.accs))
    return replace(s, body=body)


def _adds_nothing(s: Par | Reduce) -> bool:
    """Whether what ``s`` accumulates leaves it as it was."""
    if isinstance(s, Par):
        return True
    lanes = Lanes()
    try:
        lanes.run(s.body)
        values = [lanes.scalar(a.value) for a in s.accs]
    except NotLanes:
        return False
    known = {d.sym: d.init for d in lanes.items if isinstance(d, Decl) and d.const and d.init is not None}
    numbers = (_number(expand(value, known)) for value in values)
    return all(v == identity(a.op, a.sym.type).value for a, v in zip(s.accs, numbers))  # type: ignore[arg-type]


def _up_to(s: Par | Reduce, end: Expr) -> Stmt:
    t = s.var.type
    assert isinstance(t, Scalar)
    whole, end = s.hi, cast(end, t)
    rounded = isinstance(whole, Binary) and whole.op == "*" and covers(whole.a, whole.b, end)
    hi = end if rounded else simplify(Call("min", (end, cast(whole, t)), t))
    return replace(s, hi=hi, dist=s.dist if len(s.dist) > 1 else (*s.dist, Level("seq")))


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
