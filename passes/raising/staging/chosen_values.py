"""Values that threads start with and change where there is an element for them, as choices between the two.

before                                            after
    var v: f32 = 0.0                                  var v: f32 = tid < n ? x[tid] : 0.0
    if tid < n                                        total = block_sum(v * v)
      v = x[tid]
    total = block_sum(v * v)

A value that is declared as all that it is can be read again where it is used behind the exchange.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.fold import simplify
from ktc.ir.nodes import Assign, Binary, Body, Const, Decl, Expr, If, Select, Stmt
from ktc.ir.purity import is_movable, is_removable
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, declared, substitute_expr, used, used_in, with_bodies
from ktc.passes.raising.recognise.exchange_regions import communicates


def with_chosen_values(body: Body) -> Body:
    """``body`` with such values in front of exchanges."""
    last = max((k for k, s in enumerate(body) if communicates(s)), default=0)
    out: Body = ()
    for s in body[:last]:
        out = _chosen(out, s) or (*out, s)
    return tuple(with_bodies(s, with_chosen_values) for s in (*out, *body[last:]))


def _chosen(before: Body, s: Stmt) -> Body | None:
    """``before`` and the condition ``s`` with what it gives to variables of ``before`` as choices; None where it does
    something else, or asks for more than what is known of a thread."""
    if not isinstance(s, If) or s.orelse or not is_movable(s.cond):
        return None
    steps = [x for x in s.then if isinstance(x, Decl | Assign) and isinstance(x.sym.type, Scalar)]
    given = {a.sym for a in steps if isinstance(a, Assign)}
    starts = {d.sym: d for d in before if isinstance(d, Decl) and d.sym in given}
    if len(steps) < len(s.then) or starts.keys() != given or not given:
        return None
    if not all(_is_start(d, before, s.cond) for d in starts.values()):
        return None
    made: list[Stmt] = []
    now = {v: d.init for v, d in starts.items() if d.init is not None}
    for x in steps:
        value = x.init if isinstance(x, Decl) else x.value
        if value is None or not is_removable(value):
            return None
        value = _plain(substitute_expr(value, now))
        if isinstance(x, Decl):
            made.append(dataclasses.replace(x, init=_where(s.cond, value)))
            continue
        other = now.pop(x.sym, None)  # from here on it is what it is chosen to be
        if other is None:
            return None
        d = starts[x.sym]
        made.append(Decl(d.sym, Select(s.cond, value, other), loc=d.loc, comments=d.comments))
    return (*(x for x in before if not any(x is d for d in starts.values())), *made)


def _is_start(d: Decl, before: Body, cond: Expr) -> bool:
    """Whether ``d`` is what nothing of ``before`` looks at, and a number or the like."""
    k = next(k for k, x in enumerate(before) if x is d)
    behind = before[k + 1 :]
    touched = used_in(behind) | assigned(behind) | set(declared(behind)) | used(cond)
    plain = d.init is not None and is_movable(d.init) and not used(d.init) & assigned(behind)
    return plain and isinstance(d.sym.type, Scalar) and d.sym not in touched


def _plain(e: Expr) -> Expr:
    """``e`` without the zero that a sum starts with."""
    e = simplify(e)
    starts = isinstance(e, Binary) and e.op == "+" and isinstance(e.a, Const) and e.a.value == 0
    return e.b if starts else e  # type: ignore[attr-defined]


def _where(cond: Expr, value: Expr) -> Expr:
    """``value``, which may be computed under ``cond`` only; a zero elsewhere."""
    t = value.type
    assert isinstance(t, Scalar)
    return value if is_movable(value) else Select(cond, value, Const(0, t))


__all__ = ["with_chosen_values"]
