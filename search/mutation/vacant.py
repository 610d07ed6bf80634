"""Elements that nothing but zeros ever reached: of an array in which a guard lets values into some copies alone.

Unrolled over rows that may not exist, a kernel sums each in its own element of a private array: all start at zero, and
a row that does not exist is never added to. Where a guard says that it does not, its element is zero still, whatever
was exchanged between the lanes of a block on the way: in all of them it is.

An element is zero if the array begins with zeros, and each later store of the array gives it a zero where it held one,
in every thread, or cannot be to that element (z3): under the facts there, of any thread, and those of the load. A zero
is also what some thread had in that element when it filled a shared array (:mod:`.refilled`): sums go through one.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Alloc,
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    HwIndex,
    Knob,
    Load,
    Select,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
    WarpOp,
)  # fmt: skip
from ktc.ir.types import Array, Scalar
from ktc.ir.uniformity import uniformity
from ktc.ir.walk import all_exprs, assigned, walk, walk_expr
from ktc.search.verification import smt

from .cells import reached, shape, store_in
from .refilled import Place, Refilled, placed
from .sites import branches, sites

PURE = (Const, Knob, Var, HwIndex, Binary, Unary, Cast, Select, Call)
"""What keeps its value as long as its variables do."""


@dataclass(frozen=True)
class _Given:
    """What holds where an element is stored to that must be zero, and the body that declares its array."""

    context: smt.Context
    home: Body


class Vacant:
    """The private arrays of one kernel."""

    def __init__(self, kernel: Kernel, refilled: Refilled) -> None:
        self.kernel, self.refilled = kernel, refilled
        self.facts = uniformity(kernel)
        self.changed = assigned(kernel.body)
        self._known: list[tuple[Stmt, smt.Context]] = []
        self.places: dict[int, list[Place]] = {}
        for s, place in placed(kernel.body):
            self.places.setdefault(id(s), []).append(place)
        self.declared = [s.sym for s in walk(kernel.body) if isinstance(s, Decl | Alloc)]
        self.declared += [s.var for s in walk(kernel.body) if isinstance(s, For)]

    def is_zero(self, e: Load, s: Stmt, context: smt.Context) -> bool:
        """Whether ``e``, read by the statement ``s`` where ``context`` holds, is zero, of whatever sign."""
        array = e.buffer
        if e.width != 1 or not self._private(array) or not all(context.lasting(i) for i in e.index):
            return False
        at = self._home(array, s)
        if at is None:
            return False
        home, last = at
        stores = [x for x in walk(self.kernel.body) if array in assigned((x,)) and not branches(x)]
        if not self._begins_with_zeros(array, home[:last]):
            return False
        steady = self._lasting(self.places[id(s)][0], home)
        return all(
            isinstance(x, Store) and (self._keeps_zero(x) or self._adds_none(x, there, e, context, steady, home))
            for x, there in self._sites()
            if x in stores
        )

    def _adds_none(
        self, s: Store, there: smt.Context, e: Load, here: smt.Context, steady: set[Sym], home: Body
    ) -> bool:
        """Whether ``s``, run by any thread where ``there`` holds, does not store to the element ``e``, read where
        ``here`` holds, or stores a zero that has gone through another array."""
        meeting = self._meeting(s, there, e, here, steady)
        if meeting is None:
            return False
        return meeting.impossible() or self._zero(s.value, s, _Given(meeting, home))

    def _sites(self) -> list[tuple[Stmt, smt.Context]]:
        if not self._known:
            self._known = [(x, there.branch()) for x, there in sites(self.kernel.body, smt.Context(self.kernel))]
        return self._known

    def _private(self, array: Sym) -> bool:
        """Whether ``array`` is a thread's own, of scalars, and named by subscripts alone."""
        t = array.type
        if not isinstance(t, Array) or t.space == "shared" or not isinstance(t.elem, Scalar):
            return False
        named = ((isinstance(e, AddrOf) and e.buffer == array) or e == Var(array) for e in all_exprs(self.kernel.body))
        return self.declared.count(array) == 1 and not any(named)

    def _home(self, array: Sym, s: Stmt) -> tuple[Body, int] | None:
        """The body that declares ``array``, and the number of its statement around ``s``."""
        (place, *others) = self.places.get(id(s), [()])
        homes = [
            (body, k) for body, k in place if any(isinstance(x, Alloc | Decl) and x.sym == array for x in body[:k])
        ]
        return homes[0] if len(homes) == 1 and not others else None

    def _begins_with_zeros(self, array: Sym, before: Body) -> bool:
        """Whether the first statement of ``before`` that names ``array``, but for its declaration, stores zeros to all
        of it."""
        first = next((x for x in before if array in assigned((x,))), None)
        filling = store_in(first, array) if first is not None else None
        if filling is None or not isinstance(array.type, Array):
            return False
        plain = all(isinstance(x, For | Store) for x in walk((filling.statement,)))
        value = filling.store.value
        zero = isinstance(value, Const) and value.value == 0
        return plain and zero and reached(filling, self.kernel, {}, ()) == shape(array.type, self.kernel)

    def _keeps_zero(self, s: Store) -> bool:
        """Whether ``s`` stores a zero where every thread has one in that element."""
        steady = all(isinstance(x, PURE) for i in s.index for x in walk_expr(i))
        return s.width == 1 and steady and self._zero(s.value, s, None)

    def _zero(self, e: Expr, s: Store, given: _Given | None) -> bool:
        match e:
            case Const():
                return bool(e.value == 0)
            case Load() if e.buffer != s.buffer:
                return given is not None and self._filled_with_zero(e, s, given)
            case Load():
                return e.width == 1 and e.index == s.index
            case Binary(op="+" | "-" | "*"):
                return self._zero(e.a, s, given) and self._zero(e.b, s, given)
            case Unary(op="-"):
                return self._zero(e.x, s, given)
            case Call(fn="min" | "max"):
                return all(self._zero(x, s, given) for x in e.args)
            case WarpOp():
                of_all = all(self.facts.is_uniform(i) for i in s.index)
                return e.kind.startswith("shfl") and of_all and self._zero(e.value, s, None)
        return False

    def _filled_with_zero(self, e: Load, s: Store, given: _Given) -> bool:
        """Whether ``e``, which ``s`` stores, is what some thread had in the element that ``s`` stores to, since it
        began with zeros."""
        import z3

        filling = self.refilled.filling(s, e.buffer, given.context)
        found = self.refilled.stored(s, e, given.context)
        if filling is None or found is None or not self._follows_zeros(filling.statement, s.buffer, given.home):
            return False
        value, there = found
        if not isinstance(value, Load) or value.buffer != s.buffer or value.width != 1:
            return False
        if len(value.index) != len(s.index) or not all(there.lasting(i) for i in value.index):
            return False
        return there.proves(z3.And(*(there.of(i) == there.of(j) for i, j in zip(value.index, s.index))))

    def _follows_zeros(self, s: Stmt, array: Sym, home: Body) -> bool:
        """Whether ``s`` stands in ``home``, behind the statement that gives ``array`` its first zeros."""
        (place, *others) = self.places.get(id(s), [()])
        at = next((k for body, k in place if body is home), None)
        return at is not None and not others and any(array in assigned((x,)) for x in home[:at])

    def _meeting(
        self, s: Store, there: smt.Context, e: Load, here: smt.Context, steady: set[Sym]
    ) -> smt.Context | None:
        """What holds where ``s``, run by any thread where ``there`` holds, stores to the element ``e``, read where
        ``here`` holds. ``steady``: what has one value for both, and for all threads of a block."""
        import z3

        if s.width != 1 or len(s.index) != len(e.index) or not all(there.lasting(i) for i in s.index):
            return None
        index, out = [here.of(i) for i in e.index], there.branch()
        names = [
            (mine, out.of(key) if self._steady(key, steady) else z3.FreshInt("other"))
            for key, mine in list(here.unknown.items())
        ]
        out.facts += [z3.substitute(x, *names) for x in here.facts]
        out.facts += [out.of(i) == z3.substitute(j, *names) for i, j in zip(s.index, index)]
        return out

    def _steady(self, e: Expr, steady: set[Sym]) -> bool:
        return all(
            isinstance(x, PURE)
            and (not isinstance(x, Var) or x.sym in steady)
            and (not isinstance(x, HwIndex) or x.level in ("block", "block_dim", "grid_dim"))
            and (not isinstance(x, Call) or x.effects == "pure")
            for x in walk_expr(e)
        )

    def _lasting(self, place: Place, home: Body) -> set[Sym]:
        """What keeps one value, the same for all threads of a block, as long as ``home`` runs once."""
        around = list(itertools.takewhile(lambda at: at[0] is not home, place))
        loops = [body[k] for body, k in around]
        made = {x.sym for body in (*(b for b, _ in around), home) for x in body if isinstance(x, Decl)}
        made |= {x.var for x in loops if isinstance(x, For)}
        once = {sym for sym in made if self.declared.count(sym) == 1} | {p.sym for p in self.kernel.params}
        return {sym for sym in once - self.changed if self.facts.is_uniform(Var(sym))}


__all__ = ["Vacant"]
