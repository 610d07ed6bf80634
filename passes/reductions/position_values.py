"""What each position of a block holds: whether two loops over the positions see one value.

    par t in 0..n                           w holds q[t] * 2
      w[t] = q[t] * 2
    reduce(max) m over j in 0..n            the maximum of q[j] * 2, as w[j] is that
      yield w[j]
    reduce(+) l over i in 0..n              below it: w[i] is q[i] * 2 still
      yield exp(w[i] - m)

Only of a value that the maximum has seen is it known to be no larger, in each part of the positions.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from ktc.ir.analysis.defs import expand
from ktc.ir.fold import simplify
from ktc.ir.nodes import Decl, Expr, Load, Par, Reduce, Store, Sym, Var, fresh
from ktc.ir.types import I32
from ktc.ir.walk import assigned, map_expr, substitute_expr, used, walk


@dataclass
class PositionValues:
    """The contents of ``rows``, of which each position has an element, as expressions of the position ``at``.
    ``changing``: what else the block writes."""

    rows: Collection[Sym]
    changing: Collection[Sym]
    at: Sym = field(default_factory=lambda: fresh("at", I32))
    held: dict[Sym, Expr] = field(default_factory=dict)

    def of(self, e: Expr, loop: Par | Reduce) -> Expr:
        """``e``, which stands in the body of ``loop``."""
        names = {s.sym: s.init for s in loop.body if isinstance(s, Decl) and s.init is not None}
        moving = assigned(loop.body)
        fixed = {s: init for s, init in names.items() if s not in moving and not used(init) & moving}
        here = substitute_expr(expand(e, fixed), {loop.var: Var(self.at)})
        return simplify(map_expr(here, self._content))

    def _content(self, e: Expr) -> Expr:
        if not isinstance(e, Load):
            return e
        if e.buffer in self.rows:
            return self.held.setdefault(e.buffer, Var(fresh(e.buffer.name, e.type)))
        return Var(fresh(e.buffer.name, e.type)) if e.buffer in self.changing else e

    def after(self, loop: Par | Reduce) -> None:
        """Take up what ``loop`` leaves in the rows."""
        for k, s in enumerate(loop.body):
            later = assigned(loop.body[k + 1 :])
            for x in walk((s,)):
                if isinstance(x, Store) and x.buffer in self.rows:
                    known = x is s and not used(x.value) & later
                    unknown = Var(fresh(x.buffer.name, x.value.type))
                    self.held[x.buffer] = self.of(x.value, loop) if known else unknown


__all__ = ["PositionValues"]
