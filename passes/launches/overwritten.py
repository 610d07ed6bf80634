"""A store that the same iteration overwrites, before anything may have read the element, is gone.

before                                              after
    let y_1: f32 = x[i] * x[i]                          let y_1: f32 = x[i] * x[i]
    y[i] = y_1                                          y[i] = y_1 * 2.0
    y[i] = y_1 * 2.0

That is what is left of two launches of which the second writes where the first did, once what it read there comes from
a variable.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.dependence import may_alias
from ktc.ir.analysis.order import jump, pinned
from ktc.ir.arith.polynomial import same_value
from ktc.ir.nodes import Body, Expr, If, Load, Stmt, Store, Sym
from ktc.ir.types import Ptr
from ktc.ir.walk import assigned, mentions, stmt_exprs, used, walk_expr, with_bodies


def without_overwritten(body: Body, apart: Collection[Sym]) -> Body:
    """``body`` without stores that are overwritten right behind; ``apart``: buffers that overlap no other one."""
    return _Iteration(definitions(body), assigned(body), apart).list(body)


@dataclass(frozen=True)
class _Iteration:
    names: Mapping[Sym, Expr]
    changed: Collection[Sym]
    apart: Collection[Sym]

    def list(self, body: Body) -> Body:
        body = tuple(with_bodies(s, self.list) for s in body)
        gone = {k for k, s in enumerate(body) if isinstance(s, Store) and self._overwritten(s, body[k + 1 :])}
        return tuple(s for k, s in enumerate(body) if k not in gone) if gone else body

    def _overwritten(self, s: Store, later: Body) -> bool:
        if s.width != 1 or not isinstance(s.buffer.type, Ptr) or pinned((s,)) or self._index(s) is None:
            return False
        for t in later:
            reads = any(self._may_read(e, s.buffer) for top in stmt_exprs(t) for e in walk_expr(top))
            if isinstance(t, Store) and self._same_element(s, t):
                return not reads
            if isinstance(t, If) and not reads and all(self._overwritten(s, arm) for arm in (t.then, t.orelse)):
                return True
            if pinned((t,)) or jump((t,)) or self._touches(t, s.buffer):
                return False
        return False

    def _same_element(self, s: Store, t: Store) -> bool:
        mine, theirs = self._index(s), self._index(t)
        if s.buffer != t.buffer or t.width != 1 or pinned((t,)) or mine is None or theirs is None:
            return False
        return len(mine) == len(theirs) and all(map(same_value, mine, theirs))

    def _index(self, s: Store) -> tuple[Expr, ...] | None:
        """The index in terms of what keeps its value; None if there are no such terms."""
        full = tuple(expand(e, self.names) for e in s.index)
        moving = any(used(e) & set(self.changed) or any(isinstance(x, Load) for x in walk_expr(e)) for e in full)
        return None if moving else full

    def _may_read(self, e: Expr, buffer: Sym) -> bool:
        return isinstance(e, Load) and may_alias(e.buffer, buffer, self.apart)

    def _touches(self, t: Stmt, buffer: Sym) -> bool:
        there = (b for b in mentions(t) if isinstance(b.type, Ptr))
        return any(may_alias(b, buffer, self.apart) for b in there)


__all__ = ["without_overwritten"]
