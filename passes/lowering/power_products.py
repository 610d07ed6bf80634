"""Powers with small whole exponents as products: compilers for GPUs call ``pow`` for them, a hundred instructions.

before                                          after
    s += pow(x[i] - mean, 2.0)                      let base: f32 = x[i] - mean
                                                    s += base * base

Which powers these are, and what becomes of their rounding: :mod:`ktc.ir.whole_powers`. The base is computed in front of
its statement where every run of that comes to it; elsewhere (an arm of a choice, a loop's condition) it is written as
often as it is a factor, for a compiler to compute it once.
"""

from __future__ import annotations

import dataclasses
from functools import partial

from ktc.ir.fields import with_children
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Atomic, Binary, Body, Decl, Eval, Expr, If, Reduce, Select, Stmt, Store, Var, fresh
from ktc.ir.purity import is_removable
from ktc.ir.walk import all_exprs, stmt_exprs, walk_expr, with_bodies
from ktc.ir.whole_powers import whole_power

AT_ONCE = (Assign, Atomic, Decl, Eval, If, Store)
"""Statements that evaluate their expressions once, before anything else that they do."""


def with_power_products(kernel: Kernel) -> Kernel:
    """``kernel`` with its small whole powers as products; the same object if it has none."""
    if not any(map(whole_power, all_exprs(kernel.body))):
        return kernel
    return kernel.with_(body=_body(kernel.body))


def _body(body: Body) -> Body:
    out: list[Stmt] = []
    for s in body:
        inside = with_bodies(s, _body)
        front: list[Stmt] = []
        if isinstance(inside, Reduce):
            accs = tuple(dataclasses.replace(a, value=_expr(a.value, front, True)) for a in inside.accs)
            inside = dataclasses.replace(inside, accs=accs, body=(*inside.body, *front))
            front = []
        elif any(whole_power(e) for top in stmt_exprs(inside) for e in walk_expr(top)):
            once = isinstance(inside, AT_ONCE) and all(map(is_removable, stmt_exprs(inside)))
            inside = with_children(inside, partial(_expr, front=front, certain=once))
        out += [*front, inside]
    return tuple(out)


def _expr(e: Expr, front: list[Stmt], certain: bool) -> Expr:
    """``e`` with products; ``certain``: it is evaluated whenever its statement runs, so that bases may be named in
    ``front`` of that."""
    if isinstance(e, Select):
        cond = _expr(e.cond, front, certain)
        return dataclasses.replace(e, cond=cond, a=_expr(e.a, front, False), b=_expr(e.b, front, False))
    if isinstance(e, Binary) and e.op in ("&&", "||"):
        return dataclasses.replace(e, a=_expr(e.a, front, certain), b=_expr(e.b, front, False))
    e = with_children(e, partial(_expr, front=front, certain=certain))
    power = whole_power(e)
    if power is None or not is_removable(power[0]):
        return e
    base, n = power
    if certain and not isinstance(base, Var):
        named = Decl(fresh("base", base.type), base, const=True)
        front.append(named)
        base = Var(named.sym)
    square = Binary("*", base, base)
    return {2: square, 3: Binary("*", square, base), 4: Binary("*", square, square)}[n]


__all__ = ["with_power_products"]
