"""Values that all threads of a team hold alike: what one of them hands to the others is what these have.

before                                     after
    reduce(+) total over t in 0..32 ...        reduce(+) total over t in 0..32 ...
    s = total                                  s = total
    s = shfl(s, 0)                             s = s
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from ktc.ir.nodes import Assign, Decl, Expr, HwIndex, Load, Stmt, Sym, WarpOp
from ktc.ir.walk import assigned, map_expr, used, walk_expr


class Agreed:
    """The variables that hold one value in all threads, as the statements of a list are gone through.

    ``private``: those of which threads may hold different values.
    """

    def __init__(self, private: Collection[Sym]) -> None:
        self.private = private
        self.settled: set[Sym] = set()

    def after(self, s: Stmt) -> None:
        """Takes note of what ``s`` assigns."""
        value = s.init if isinstance(s, Decl) else s.value if isinstance(s, Assign) else None
        if isinstance(s, Decl | Assign) and value is not None and self._agrees(value):
            self.settled.add(s.sym)
        else:
            self.settled -= assigned((s,)) | ({s.sym} if isinstance(s, Decl) else set())

    def without_shuffles(self, s: Stmt) -> Stmt:
        """``s`` with values that all threads hold in place of shuffles of them."""
        if isinstance(s, Decl) and s.init is not None:
            value = map_expr(s.init, self._plain)
            return s if value is s.init else dataclasses.replace(s, init=value)
        if isinstance(s, Assign):
            value = map_expr(s.value, self._plain)
            return s if value is s.value else dataclasses.replace(s, value=value)
        return s

    def _plain(self, e: Expr) -> Expr:
        return e.value if isinstance(e, WarpOp) and e.kind.startswith("shfl") and self._agrees(e.value) else e

    def _agrees(self, e: Expr) -> bool:
        if any(isinstance(x, Load | WarpOp | HwIndex) for x in walk_expr(e)):
            return False
        return all(v in self.settled or v not in self.private for v in used(e))


__all__ = ["Agreed"]
