"""Loops of a few rounds that are known, one round after the other: each has its own constants then.

for d = 2; d >= 0; d - 1                        let q_2: i32 = i / dims[2]
  let q: i32 = i / dims[d]                      ..
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ktc.ir.fold import evaluate, simplify
from ktc.ir.nodes import Binary, Body, Break, Const, Continue, Decl, For, If, Return, Stmt
from ktc.ir.types import Scalar, Type
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    keep,
    loads_in,
    map_body,
    refresh,
    substitute,
    substitute_expr,
    used,
)

MOST_ROUNDS = 8


def written_out(body: Body, wanted: Callable[[For], bool]) -> Body:
    """``body`` with its ``wanted`` serial loops written out, as far as their rounds are known, few, and go to their
    ends."""

    def on(s: Stmt) -> Stmt | Body:
        rounds = [*_rounds(s)] if isinstance(s, For) and wanted(s) else None
        return s if rounds is None or not rounds else tuple(x for r in rounds for x in r)

    return map_body(body, on)


def divides_by_elements(loop: For) -> bool:
    """Whether each round of ``loop`` may divide by another element of a buffer, which is the same in all iterations
    around it."""
    own = {loop.var, *declared(loop.body)}
    quotients = (e for e in all_exprs(loop.body) if isinstance(e, Binary) and e.op in ("/", "%"))
    return any(used(i) & own for e in quotients for x in loads_in(e.b) for i in x.index)


def _rounds(s: For) -> Iterator[Body]:
    """The rounds of ``s`` as statements; none where they are not known."""
    t = s.var.type
    if not isinstance(t, Scalar) or s.var in assigned(s.body) or _is_left(s.body):
        return
    found: list[Body] = []
    value = evaluate(s.init, {})
    while True:
        if value is None or len(found) > MOST_ROUNDS:
            return
        at = {s.var: Const(int(value), t)}
        goes_on = evaluate(simplify(substitute_expr(s.cond, at)), {})
        if goes_on is None:
            return
        if not goes_on:
            break
        found.append(refresh(_told(map_body(substitute(s.body, at), keep, simplify))))
        value = evaluate(simplify(substitute_expr(s.step, at)), {})
    yield from found


def _told(body: Body) -> Body:
    """``body`` with the integers in their places that variables of it hold which are given numbers, and keep them."""
    kept, out = assigned(body), body
    for s in body:
        value = evaluate(s.init, {}) if isinstance(s, Decl) and s.init is not None and s.sym not in kept else None
        if isinstance(s, Decl) and isinstance(value, int) and _holds(s.sym.type, value):
            assert isinstance(s.sym.type, Scalar)
            rest = tuple(x for x in out if x is not s)
            out = map_body(substitute(rest, {s.sym: Const(value, s.sym.type)}), keep, simplify)
    return out


def _holds(t: Type, value: int) -> bool:
    return isinstance(t, Scalar) and t.is_int and 0 <= value < 1 << (t.bits - 1)


def _is_left(body: Body) -> bool:
    """Whether a round may end before its last statement."""
    for s in body:
        if isinstance(s, Break | Continue | Return):
            return True
        if isinstance(s, If) and (_is_left(s.then) or _is_left(s.orelse)):
            return True
    return False


__all__ = ["divides_by_elements", "written_out"]
