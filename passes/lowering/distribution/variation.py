"""Which jam levels a private value varies along.

A value *varies along* a level when it can differ between two iterations of that level: it depends, through data or
control, on the level's variable; or it is what memory held at its moment, which an atomic finds: of two that are alike
the second finds what the first has left. Values that do not vary are computed once.
"""

from __future__ import annotations

from ktc.ir.analysis.accumulators import together
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Body,
    Break,
    Continue,
    Decl,
    Eval,
    Expr,
    For,
    If,
    InlineAsm,
    Load,
    Par,
    RawStmt,
    Reduce,
    Return,
    Stmt,
    Store,
    Sym,
    Var,
    While,
)  # fmt: skip
from ktc.ir.storage import is_private
from ktc.ir.walk import all_exprs, assigned, declared, walk, walk_expr

Levels = frozenset[Sym]
NONE: Levels = frozenset()


class Variation:
    """A map from symbols to the jam variables they vary along, grown to a fixed point over a body."""

    def __init__(self) -> None:
        self.of_sym: dict[Sym, Levels] = {}

    def of(self, e: Expr) -> Levels:
        out = NONE
        for x in walk_expr(e):
            if isinstance(x, Var):
                out |= self.of_sym.get(x.sym, NONE)
            elif isinstance(x, Load) and is_private(x.buffer):
                out |= self.of_sym.get(x.buffer, NONE)
        return out

    def seed(self, sym: Sym, levels: Levels) -> None:
        self.of_sym[sym] = self.of_sym.get(sym, NONE) | levels

    def grow(self, body: Body, control: Levels = NONE) -> None:
        """Propagate to a fixed point (loops carry variation back to their first statement)."""
        while self._once(body, control):
            pass

    def _add(self, sym: Sym, levels: Levels) -> bool:
        old = self.of_sym.get(sym, NONE)
        if levels <= old:
            return False
        self.of_sym[sym] = old | levels
        return True

    def _once(self, body: Body, control: Levels) -> bool:
        changed = False
        for s in body:
            if isinstance(s, Decl):
                changed |= self._add(s.sym, control | (self.of(s.init) if s.init is not None else NONE))
            elif isinstance(s, Alloc):
                self.of_sym.setdefault(s.sym, NONE)
            elif isinstance(s, Assign):
                changed |= self._add(s.sym, control | self.of(s.value))
            elif isinstance(s, Store):
                if is_private(s.buffer):
                    changed |= self._add(s.buffer, control | self._all(s.index) | self.of(s.value))
            elif isinstance(s, Atomic):
                if s.dst is not None:  # what it finds is another one each time, wherever and with whatever it is made
                    changed |= self._add(s.dst, control | self._every())
            elif isinstance(s, If):
                c = control | self.of(s.cond)
                changed |= self._once(s.then, c) | self._once(s.orelse, c)
                changed |= self._carried((*s.then, *s.orelse), c)
            elif isinstance(s, For):
                changed |= self._add(s.var, control | self.of(s.init))
                c = control | self.of(s.cond) | self.of(s.step)
                changed |= self._add(s.var, c)
                changed |= self._once(s.body, c) | self._carried(s.body, c)
            elif isinstance(s, While):
                c = control | self.of(s.cond)
                changed |= self._once(s.body, c) | self._carried(s.body, c)
            elif isinstance(s, Par):
                changed |= self._once(s.body, control | self.of(s.lo) | self.of(s.hi))
            elif isinstance(s, Reduce):
                c = control | self.of(s.lo) | self.of(s.hi)
                changed |= self._once(s.body, c)
                for group in together(s.accs):
                    own = c | self._all(tuple(e for a in group for e in (a.value, a.init)))
                    for a in group:
                        changed |= self._add(a.sym, own)
            elif isinstance(s, InlineAsm):
                inputs = self._all(tuple(e for _, e in s.inputs)) if not s.memory else self._every()
                for _, o in s.outputs:
                    changed |= self._add(o, control | inputs)
            elif isinstance(s, RawStmt):
                for w in s.writes:
                    changed |= self._add(w, control | self._every())
        return changed

    def _carried(self, body: Body, control: Levels) -> bool:
        """Under control that varies, and where it may be left early, ``body`` is repeated as a whole, for every level
        that anything in it varies along: what it assigns and was there before has to be each repetition's own."""
        if not control and not leaves_early(body):
            return False
        whole = control | self._all(tuple(all_exprs(body)))
        if any(_acts(x) for x in walk(body)):  # what others see happens once in every iteration
            whole |= self._every()
        before = assigned(body) - set(declared(body))
        added = [self._add(v, whole) for v in before if is_private(v)]
        return any(added)

    def _every(self) -> Levels:
        """Every level that anything varies along."""
        return NONE.union(*self.of_sym.values())

    def _all(self, es: tuple[Expr, ...]) -> Levels:
        out = NONE
        for e in es:
            out |= self.of(e)
        return out


def leaves_early(body: Body) -> bool:
    """Whether control may leave ``body``, or a loop in it, from the middle."""
    return any(isinstance(x, Break | Continue | Return) for x in walk(body))


def _acts(s: Stmt) -> bool:
    """Whether ``s`` does something that is seen outside its iteration."""
    return isinstance(s, Atomic | Eval | RawStmt) or (isinstance(s, Store) and not is_private(s.buffer))
