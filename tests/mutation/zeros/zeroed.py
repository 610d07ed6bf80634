"""Cells of a shared array that are filled with zeros and never get anything else: a tree over a row that ends early.

``t[tid] = i < n ? x[i] : 0``, a barrier, then ``t[tid] += t[tid + o]`` in rounds: what a thread beyond the row filled
is zero, and so is all that is ever added to it, for that lies farther beyond. Of a row of one element no round adds
anything to it.

Such cells are those of which each thread that fills one stores a zero. They stay so if every later store puts a zero
into a cell of them where it reads cells of them alone, or cannot be to one (z3): of any thread, wherever it stands.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ktc.ir.nodes import Binary, Call, Const, Expr, Load, Select, Stmt, Store, Sym, Unary
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import all_exprs, assigned, used_in, walk
from ktc.search.verification.integers import smt
from tests.mutation.sites import branches
from tests.mutation.symbolic.barriers import of_block
from tests.mutation.symbolic.meetings import Meetings

from .cells import Filling, shape, store_in
from .refilled import Refilled

if TYPE_CHECKING:
    import z3


class Zeroed:
    """The shared arrays of one kernel."""

    def __init__(self, refilled: Refilled, meetings: Meetings) -> None:
        self.refilled, self.meetings = refilled, meetings
        self._known: dict[int, bool] = {}
        """By ``id`` of what fills an array, whether what it filled with zeros stays so."""

    def is_zero(self, e: Load, s: Stmt, context: smt.Context) -> bool:
        """Whether ``e``, read by the statement ``s`` where ``context`` holds, is zero, of whatever sign."""
        filling = self._filling(e.buffer, s) if e.width == 1 else None
        if filling is None or not self._filled_with_zero(filling, e.index, context):
            return False
        key = id(filling.statement)
        if key not in self._known:
            self._known[key] = self._stays(filling)
        return self._known[key]

    def _filling(self, array: Sym, s: Stmt) -> Filling | None:
        """What gives all of ``array`` its first values, and is over before ``s`` or any other statement touches it."""
        t, at = array.type, self.meetings.home(array, s)
        if not isinstance(t, Array) or not isinstance(t.elem, Scalar) or at is None:
            return None
        home, last = at
        touching = [k for k, x in enumerate(home[: last + 1]) if array in used_in((x,)) | assigned((x,))]
        if len(touching) < 2 or not any(of_block(x) for x in home[touching[0] + 1 : touching[1]]):
            return None
        first = home[touching[0]]
        reads = any(isinstance(e, Load) and e.buffer == array for e in all_exprs((first,)))
        found = store_in(first, array) if not reads and array not in self.refilled.pointed else None
        if found is None:
            return None
        found = _unguarded(found, t.elem)
        return found if self.refilled.reached(found) == shape(t, self.refilled.kernel) != () else None

    def _stays(self, filling: Filling) -> bool:
        """Whether no cell that ``filling`` gives a zero ever gets anything else."""
        array = filling.store.buffer
        inside = set(map(id, walk((filling.statement,))))
        later = [
            (x, there)
            for x, there in self.meetings.sites()
            if array in assigned((x,)) and not branches(x) and id(x) not in inside
        ]
        return all(isinstance(x, Store) and x.width == 1 and self._keeps(filling, x, there) for x, there in later)

    def _keeps(self, filling: Filling, s: Store, there: smt.Context) -> bool:
        """Whether ``s``, run where ``there`` holds, gives such a cell a zero, if it is to one at all."""
        found = self.refilled.filler(filling, s.index, there)
        if found is None:
            return False
        value, here = found
        zero = _is_zero(value, here)
        if zero is None:
            return False
        here.facts.append(zero)
        return here.impossible() or self._zero(s.value, filling, here)

    def _zero(self, e: Expr, filling: Filling, here: smt.Context) -> bool:
        """Whether ``e`` is zero where ``here`` holds, made of zeros and of such cells."""
        match e:
            case Const():
                return bool(e.value == 0)
            case Load():
                same = e.buffer == filling.store.buffer and e.width == 1
                return same and self._filled_with_zero(filling, e.index, here)
            case Binary(op="+" | "-" | "*"):
                return self._zero(e.a, filling, here) and self._zero(e.b, filling, here)
            case Unary(op="-"):
                return self._zero(e.x, filling, here)
            case Call(fn="min" | "max"):
                return all(self._zero(x, filling, here) for x in e.args)
        return False

    def _filled_with_zero(self, filling: Filling, cell: tuple[Expr, ...], context: smt.Context) -> bool:
        """Whether every thread that fills ``cell``, named where ``context`` holds, stores a zero there."""
        found = self.refilled.filler(filling, cell, context)
        if found is None:
            return False
        value, here = found
        zero = _is_zero(value, here)
        return zero is not None and here.proves(zero)


def _unguarded(filling: Filling, elem: Scalar) -> Filling:
    """``filling`` as if what is not stored were something else than a zero."""
    value = filling.store.value
    for guard in reversed(filling.guards):
        value = Select(guard, value, Const(1, elem))
    return replace(filling, store=replace(filling.store, value=value), guards=())


def _is_zero(value: Expr, here: smt.Context) -> z3.BoolRef | None:
    """When ``value`` is known to be zero; None if that cannot be told."""
    import z3

    if not isinstance(value, Select):
        return z3.BoolVal(isinstance(value, Const) and value.value == 0)
    arms = [_is_zero(x, here) for x in (value.a, value.b)]
    return z3.If(here.truth(value.cond), *arms) if here.lasting(value.cond) and None not in arms else None


__all__ = ["Zeroed"]
