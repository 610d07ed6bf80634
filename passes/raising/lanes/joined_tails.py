"""A loop over whole vectors and the loop over the elements behind them: one loop, where both do the same.

before                                              after
    par i in 0..n / 4 * 4 @ [vec 4, thread.x 256]       par k in 0..n @ [vec 4, thread.x 256]
      let v: f32 = x[i]                                   y[k] = a * x[k]
      y[i] = a * v
    par k in n / 4 * 4..n @ [thread.x 256]
      y[k] = a * x[k]

The loop behind is the source's own text for one element, and stays.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.arith.polynomial import from_polynomial, polynomial, same_value
from ktc.ir.fields import with_children
from ktc.ir.fold import i32
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, Decl, Expr, Load, Par, Reduce, Stmt, Store, Sym, Var, fresh
from ktc.ir.text import canonical
from ktc.ir.types import I64
from ktc.ir.walk import map_stmt_exprs, substitute_expr, with_bodies


def joined_tails(body: Body) -> Body:
    """``body`` with such loops in a row as one."""
    out: list[Stmt] = []
    for s in body:
        s = with_bodies(s, joined_tails)
        whole = _joined(out[-1], s) if out else None
        if whole is None:
            out.append(s)
        else:
            out[-1] = whole
    return tuple(out)


def _joined(first: Stmt, rest: Stmt) -> Stmt | None:
    if isinstance(first, Par) and isinstance(rest, Par) and same_value(first.hi, rest.lo) and _alike(first, rest):
        return dataclasses.replace(rest, lo=first.lo, dist=first.dist)
    if isinstance(first, Reduce) and isinstance(rest, Reduce) and len(first.accs) == len(rest.accs) == 1:
        (a,), (b,) = first.accs, rest.accs
        if a.op == b.op and b.init == Var(a.sym) and same_value(first.hi, rest.lo) and _alike(first, rest):
            return dataclasses.replace(rest, lo=first.lo, dist=first.dist, accs=(dataclasses.replace(b, init=a.init),))
    return None


def _alike(a: Par | Reduce, b: Par | Reduce) -> bool:
    """Whether an iteration of ``a`` does what one of ``b`` does, operation by operation."""
    one, other = (_plain(x) for x in (a, b))
    return one is not None and one == other


def _plain(loop: Par | Reduce) -> Kernel | None:
    """What an iteration of ``loop`` stores or accumulates, with all that is computed for it in its place."""
    found: dict[Sym, Expr] = {}
    out: list[Stmt] = []
    for s in loop.body:
        s = with_children(s, lambda e: substitute_expr(e, found))
        if isinstance(s, Decl) and s.init is not None:
            found[s.sym] = s.init
        elif isinstance(s, Store):
            out.append(s)
        else:
            return None
    values = [substitute_expr(x.value, found) for x in loop.accs] if isinstance(loop, Reduce) else []
    out += [Decl(fresh("value", v.type), v) for v in values]
    inside = Par(loop.var, i32(0), i32(0), (), tuple(map(_without_casts, out)))
    return canonical(Kernel("", (), None, (inside,)))


def _without_casts(s: Stmt) -> Stmt:
    """``s`` with subscripts in one spelling."""

    def on(e: Expr) -> Expr:
        return dataclasses.replace(e, index=tuple(map(_index, e.index))) if isinstance(e, Load) else e

    s = map_stmt_exprs(s, on)
    return dataclasses.replace(s, index=tuple(map(_index, s.index))) if isinstance(s, Store) else s


def _index(e: Expr) -> Expr:
    return from_polynomial(polynomial(e), I64)


__all__ = ["joined_tails"]
