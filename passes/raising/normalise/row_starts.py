"""Loops over a row that count from where it begins in memory, from 0 on: ``par i in r * n..r * n + n { x[i] = 0 }``
as ``par i in 0..n { x[r * n + i] = 0 }``.

Loops over one row then have one range, whatever row it is, which is what schedules of rows look for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.arith.polynomial import difference
from ktc.ir.fold import add, cast, i32, simplify
from ktc.ir.nodes import Binary, Body, Expr, Par, Reduce, Stmt, Sym, Var, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, loads_in, map_body, map_expr, substitute, substitute_expr, used, walk


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


__all__ = ["from_row_starts"]
