"""Statements beside a loop as one more iteration of it.

    out[at] = a * in[at] + in[at + n]                 iteration 0 of: out[at + z * n]
    for z in 1..m                                         = a * in[at + z * n] + in[at + (z + 1) * n]

They are one where they store what the loop's body would store there. Operands may differ: the iteration then says which
one it is, within an index (``in[z == 0 ? at : at + (z - 1) * n]``) or as a value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from ktc.ir.analysis.defs import expand
from ktc.ir.arith import Facts, simplified
from ktc.ir.fields import children, with_operands
from ktc.ir.fold import binary, simplify
from ktc.ir.nodes import Body, Decl, Expr, For, If, Select, Stmt, Store, Sym, Var
from ktc.ir.purity import is_removable
from ktc.ir.types import Scalar
from ktc.ir.walk import declared, loads_in, substitute_expr, used


class Unlike(Exception):
    """The statements are no iteration of the loop."""


class Joining:
    """The body of ``loop`` with an iteration beside it. ``names``: variables that stand for what they are declared as,
    ``gone``: those that the loop is not in the scope of."""

    def __init__(self, loop: For, at: Expr, here: Facts, names: Mapping[Sym, Expr], gone: Collection[Sym] = ()) -> None:
        """``at``: which iteration it is. ``here``: what is known where the loop stands."""
        self.loop, self.at, self.here, self.names, self.gone = loop, at, here, names, set(gone)
        self.inside = {s: names[s] for s in declared(loop.body) if s in names}
        self.loads = {s: e for s, e in self.inside.items() if any(loads_in(expand(e, self.inside)))}
        """Names of what is loaded. They go: in the new iteration there may be nothing where they would look."""
        self.is_here = binary("==", Var(loop.var), at)

    def joined(self, beside: Sequence[Stmt]) -> Body:
        """The body that does in iteration ``at`` what ``beside`` does, and in all others what it did.

        Raises:
            Unlike: it stores other elements there.
        """
        decls = [s for s in self.loop.body if isinstance(s, Decl)]
        acts = [s for s in self.loop.body if not isinstance(s, Decl)]
        if len(acts) != len(beside) or any(s.sym not in self.inside for s in decls):
            raise Unlike
        new = tuple(map(self._stmt, acts, beside))
        return (*(s for s in decls if s.sym not in self.loads), *new)

    def _stmt(self, a: Stmt, b: Stmt) -> Stmt:
        match a, b:
            case Store(), Store() if dataclasses.replace(b, index=a.index, value=a.value, loc=a.loc) == a:
                if not all(map(self._equal, a.index, b.index)):
                    raise Unlike
                return dataclasses.replace(a, value=self._value(a.value, b.value))
            case If(), If() if len(a.then) == len(b.then) and len(a.orelse) == len(b.orelse):
                then, orelse = (tuple(map(self._stmt, x, y)) for x, y in ((a.then, b.then), (a.orelse, b.orelse)))
                return dataclasses.replace(a, cond=self._value(a.cond, b.cond), then=then, orelse=orelse)
        raise Unlike

    def _value(self, a: Expr, b: Expr) -> Expr:
        """``b`` in the iteration beside the loop, ``a`` in all others."""
        if isinstance(a, Var) and a.sym in self.loads:
            return self._value(self.loads[a.sym], b)
        if isinstance(b, Var) and b.sym in self.names and b != a:
            return self._value(a, self.names[b.sym])
        if self._is_plain(a) and self._is_plain(b):
            return a if self._equal(a, b) else self._choice(a, b)
        if not children(a) and a == b and not used(a) & {*self.inside, self.loop.var}:
            return a
        alike = children(a) and type(a) is type(b) and len(children(a)) == len(children(b))
        if alike and with_operands(a, children(b)) == b:
            return with_operands(a, list(map(self._value, children(a), children(b))))
        return self._choice(a, b)

    def _is_plain(self, e: Expr) -> bool:
        """Whether ``e`` is an integer that is no value of memory."""
        whole = isinstance(e.type, Scalar) and e.type.is_int
        return whole and not any(loads_in(e)) and not used(e) & self.loads.keys()

    def _choice(self, a: Expr, b: Expr) -> Expr:
        a, b = expand(a, self.loads), expand(b, {s: e for s, e in self.names.items() if s in self.gone})
        if used(b) & self.gone or not is_removable(b) or not is_removable(a):
            raise Unlike
        return Select(self.is_here, b, a)

    def _equal(self, a: Expr, b: Expr) -> bool:
        there = substitute_expr(expand(a, self.inside), {self.loop.var: self.at})
        return self.here.equal(*(simplified(simplify(expand(e, self.names)), self.here) for e in (there, b)))


__all__ = ["Joining", "Unlike"]
