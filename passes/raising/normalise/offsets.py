"""Where loops begin.

Over what is computed of them: ``par i in 0..n - 2 { x = i + 1; B }`` is ``par x in 1..n - 1 { B }``.

From 0 where they count from a row's place in memory: ``par i in r * n..r * n + n { x[i] = 0 }`` is
``par i in 0..n { x[r * n + i] = 0 }``. Loops over one row then have one range, whatever row it is: what schedules
of rows look for.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.polynomial import difference
from ktc.ir.fold import add, cast, i32, simplify
from ktc.ir.nodes import Binary, Body, Const, Decl, Expr, Par, Reduce, Stmt, Sym, Var, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import (
    all_exprs,
    assigned,
    loads_in,
    map_body,
    map_expr,
    substitute,
    substitute_expr,
    used,
    walk,
)  # fmt: skip


def over_offsets(body: Body) -> Body:
    """Parallel loops whose variable is only there to have a number added, as loops over the sum."""
    changed = assigned(body)
    uses = Counter(e.sym for e in all_exprs(body) if isinstance(e, Var))

    def on(s: Stmt) -> Stmt:
        if not isinstance(s, Par) or uses[s.var] != 1:
            return s
        found = _offset(s.body, s.var)
        if found is None or found[0] in changed or found[0].type != s.var.type:
            return s
        named, by = found
        lo, hi = (simplify(add(e, by)) for e in (s.lo, s.hi))
        return dataclasses.replace(s, var=named, lo=lo, hi=hi, body=_without(s.body, named))

    return map_body(body, on)


def _offset(body: Body, var: Sym) -> tuple[Sym, Const] | None:
    """The variable that a nest's body declares first as ``var`` plus a number, and the number."""
    for s in body:
        match s:
            case Decl(sym, Binary("+", Var(v), Const() as by)) if v == var:
                return sym, by
            case Par():
                return _offset(s.body, var) if len(body) == 1 else None
            case Decl():
                continue
        return None
    return None


def _without(body: Body, named: Sym) -> Body:
    """``body`` without the declaration of ``named``."""

    def on(s: Stmt) -> Stmt | Body:
        return () if isinstance(s, Decl) and s.sym == named else s

    return map_body(body, on)


def from_row_starts(body: Body) -> Body:
    """Parallel loops and reductions that begin where a row does, which loops around them choose, and are as long for
    all rows, counted from 0."""
    names, changed = definitions(body), assigned(body)
    rows = {s.var for s in walk(body) if isinstance(s, Par)}

    def on(s: Stmt) -> Stmt:
        if not isinstance(s, Par | Reduce) or s.var in changed:
            return s
        lo, hi = expand(s.lo, names), expand(s.hi, names)
        n = simplify(difference(hi, lo))
        if not used(lo) & rows or used(n) & rows or (used(lo) | used(hi)) & changed or any(loads_in(s.lo)):
            return s
        return _from_zero(s, n, names)

    return map_body(body, on)


def _from_zero(s: Par | Reduce, n: Expr, names: Mapping[Sym, Expr]) -> Par | Reduce:
    t = s.var.type
    assert isinstance(t, Scalar)
    start, v = cast(s.lo, t), fresh(s.var.name, t)
    env: dict[Sym, Expr] = {s.var: add(start, Var(v))}

    def without_start(e: Expr) -> Expr:
        """The place in the row, where the start was taken off again."""
        if not isinstance(e, Binary) or e.op != "-" or v not in used(e.a) or not isinstance(e.type, Scalar):
            return e
        left = difference(expand(e.a, names), expand(e.b, names))
        return cast(Var(v), e.type) if left == Var(v) else e

    inner = map_body(substitute(s.body, env), lambda x: x, without_start)
    moved = dataclasses.replace(s, var=v, lo=cast(i32(0), t), hi=cast(n, t), body=inner)
    if not isinstance(moved, Reduce):
        return moved
    values = (map_expr(substitute_expr(a.value, env), without_start) for a in moved.accs)
    return dataclasses.replace(moved, accs=tuple(dataclasses.replace(a, value=e) for a, e in zip(moved.accs, values)))
