"""Elements that nothing but zeros ever reached: of an array in which a guard lets values into some copies alone.

Unrolled over rows that may not exist, a kernel sums each in its own element of a private array: all start at zero, and
a row that does not exist is never added to. Where a guard says that it does not, its element is zero still, whatever
was exchanged between the lanes of a block on the way: in all of them it is.

An element is zero if the array begins with zeros, and each later store of the array gives it a zero where it held one,
in every thread, or cannot be to that element (z3): under the facts there, of any thread, and those of the load. A zero
is also what some thread had in that element when it filled a shared array (:mod:`.refilled`): sums go through one.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Binary,
    Body,
    Call,
    Const,
    Expr,
    For,
    Load,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
    WarpOp,
)  # fmt: skip
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import all_exprs, assigned, walk, walk_expr
from ktc.search.verification.integers import smt
from tests.mutation.sites import branches
from tests.mutation.symbolic.meetings import PURE, Meetings

from .cells import reached, shape, store_in
from .refilled import Refilled


@dataclass(frozen=True)
class _Given:
    """What holds where an element is stored to that must be zero, and the body that declares its array."""

    context: smt.Context
    home: Body


class Vacant:
    """The private arrays of one kernel."""

    def __init__(self, kernel: Kernel, refilled: Refilled) -> None:
        self.kernel, self.refilled = kernel, refilled
        self.meetings = Meetings(kernel)

    def is_zero(self, e: Load, s: Stmt, context: smt.Context) -> bool:
        """Whether ``e``, read by the statement ``s`` where ``context`` holds, is zero, of whatever sign."""
        array = e.buffer
        if e.width != 1 or not self._private(array) or not all(context.lasting(i) for i in e.index):
            return False
        at = self.meetings.home(array, s)
        if at is None:
            return False
        home, last = at
        stores = [x for x in walk(self.kernel.body) if array in assigned((x,)) and not branches(x)]
        if not self._begins_with_zeros(array, home[:last]):
            return False
        steady = self.meetings.lasting(self.meetings.places[id(s)][0], home)
        return all(
            isinstance(x, Store) and (self._keeps_zero(x) or self._adds_none(x, there, e, context, steady, home))
            for x, there in self.meetings.sites()
            if x in stores
        )

    def _adds_none(
        self, s: Store, there: smt.Context, e: Load, here: smt.Context, steady: set[Sym], home: Body
    ) -> bool:
        """Whether ``s``, run by any thread where ``there`` holds, does not store to the element ``e``, read where
        ``here`` holds, or stores a zero that has gone through another array."""
        meeting = self.meetings.meeting(s, there, e, here, steady)
        if meeting is None:
            return False
        return meeting.impossible() or self._zero(s.value, s, _Given(meeting, home))

    def _private(self, array: Sym) -> bool:
        """Whether ``array`` is a thread's own, of scalars, and named by subscripts alone."""
        t = array.type
        if not isinstance(t, Array) or t.space == "shared" or not isinstance(t.elem, Scalar):
            return False
        named = ((isinstance(e, AddrOf) and e.buffer == array) or e == Var(array) for e in all_exprs(self.kernel.body))
        return self.meetings.declared.count(array) == 1 and not any(named)

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
                of_all = all(self.meetings.facts.is_uniform(i) for i in s.index)
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
        (place, *others) = self.meetings.places.get(id(s), [()])
        at = next((k for body, k in place if body is home), None)
        return at is not None and not others and any(array in assigned((x,)) for x in home[:at])


__all__ = ["Vacant"]
