"""Rows of a block in shared memory, as long as a part of the positions.

array w: shared f32[n]                  array w: shared f32[cdiv(n, 4)]
par t in lo..hi                         par t in lo..hi
  w[t] = f(t)                             w[t - lo] = f(t)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from ktc.ir.analysis.touches import Touch, touches
from ktc.ir.arith.polynomial import same_value
from ktc.ir.fold import add, cast, cdiv, simplify, sub
from ktc.ir.nodes import Alloc, Body, Expr, Load, Stmt, Store, Sym, Var, fresh
from ktc.ir.types import Array, scalar_of
from ktc.ir.walk import map_body


def of_parts(body: Body, rows: Collection[Sym], lo: Sym, parts: Expr) -> Body:
    """``body``, which takes one of ``parts`` equal parts of the positions from ``lo`` on, with arrays among ``rows``
    that position ``t`` has the element ``t`` of as long as a part."""
    found = touches(body)
    own: dict[Sym, Sym] = {}
    for s in body:
        if not isinstance(s, Alloc) or s.sym not in rows:
            continue
        t = s.sym.type
        assert isinstance(t, Array)
        if len(t.shape) == 1 and all(_at_position(x, lo) for x in found if x.buffer == s.sym):
            length = cdiv(t.shape[0], cast(parts, scalar_of(t.shape[0].type)))
            own[s.sym] = fresh(s.sym.name, dataclasses.replace(t, shape=(length,)))

    def index(e: Expr) -> tuple[Expr, ...]:
        return (simplify(sub(e, cast(Var(lo), scalar_of(e.type)))),)

    def on(s: Stmt) -> Stmt:
        if isinstance(s, Alloc) and s.sym in own:
            return dataclasses.replace(s, sym=own[s.sym])
        if isinstance(s, Store) and s.buffer in own:
            return dataclasses.replace(s, buffer=own[s.buffer], index=index(s.index[0]))
        return s

    def read(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer in own:
            return dataclasses.replace(e, buffer=own[e.buffer], index=index(e.index[0]))
        return e

    return map_body(body, on, read) if own else body


def _at_position(t: Touch, lo: Sym) -> bool:
    """Whether the access is of the element of the position that it belongs to, counted from ``lo``."""
    if t.index is None:
        return False
    return any(same_value(t.index[0], add(Var(lo), cast(Var(r.counter), scalar_of(lo.type)))) for r in t.ranges)


__all__ = ["of_parts"]
