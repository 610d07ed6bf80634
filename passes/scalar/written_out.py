"""Loops of a few rounds that are known, one round after the other: each has its own constants then.

for d = 2; d >= 0; d - 1                        let q_2: i32 = i / dims[2]
  let q: i32 = i / dims[d]                      ..
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ktc.ir.fold import evaluate, simplify
from ktc.ir.nodes import Body, Break, Const, Continue, For, If, Return, Stmt
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, map_body, refresh, substitute, substitute_expr

MOST_ROUNDS = 8


def written_out(body: Body, wanted: Callable[[For], bool]) -> Body:
    """``body`` with its ``wanted`` serial loops written out, as far as their rounds are known, few, and go to their
    ends."""

    def on(s: Stmt) -> Stmt | Body:
        rounds = [*_rounds(s)] if isinstance(s, For) and wanted(s) else None
        return s if rounds is None or not rounds else tuple(x for r in rounds for x in r)

    return map_body(body, on)


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
        found.append(refresh(map_body(substitute(s.body, at), lambda x: x, simplify)))
        value = evaluate(simplify(substitute_expr(s.step, at)), {})
    yield from found


def _is_left(body: Body) -> bool:
    """Whether a round may end before its last statement."""
    for s in body:
        if isinstance(s, Break | Continue | Return):
            return True
        if isinstance(s, If) and (_is_left(s.then) or _is_left(s.orelse)):
            return True
    return False


__all__ = ["written_out"]
