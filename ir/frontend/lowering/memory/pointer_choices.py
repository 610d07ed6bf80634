"""Pointers into one of several buffers, or into none: what is chosen at run time, and what using ``nullptr`` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ktc.ir.fold import cast, evaluate
from ktc.ir.frontend.context import Retry
from ktc.ir.frontend.meaning.cxx_types import show
from ktc.ir.frontend.meaning.values import (
    ChoicePlace,
    ChoicePtr,
    FlatArray,
    LaneArray,
    NullVal,
    PointerArray,
    PtrToPlace,
    PtrVal,
    RecordVal,
    RVal,
    Value,
    describe,
)
from ktc.ir.nodes import AddrOf, Binary, Call, Const, Expr, If, Select, Sym, Var, i32
from ktc.ir.types import BOOL, I32, U32, U64, Array
from ktc.ir.walk import used

from .buffers import cost
from .null_uses import Literals, absent, literals, null_use, points, without
from .vector_records import VectorRecords


class Choices(VectorRecords):
    """Reads and writes through a pointer that is one of several, each of them where it is not ``nullptr``."""

    def pointee(self, base: Value, node: Any) -> Value:
        """What is left of ``->`` points to; a value that is no pointer is itself."""
        base = base if isinstance(base, PtrToPlace) else self.load(base, node)
        if isinstance(base, PtrVal):
            return self.deref(base, None, node)
        if isinstance(base, PtrToPlace):
            return self.view(base, None, node)
        return self.deref_choice(base, None, node) if isinstance(base, ChoicePtr) else base

    def pointer_of(self, a: PointerArray, e: Expr) -> Value:
        """Element ``e`` of an array of pointers, whichever that is."""
        at = evaluate(e, {})
        if at is not None:
            return a.choices[int(at)] if 0 <= at < len(a.choices) else self.in_memory(a)
        index = self.pinned_which(cast(e, I32), "which")
        inside = Binary("<", cast(index, U32), Const(len(a.choices), U32))
        return ChoicePtr(self.pinned_which(Select(inside, index, i32(-1)), "which"), a.choices)  # else there is none

    def in_memory(self, a: PointerArray) -> Value:
        """Start again with ``a`` in memory: it is copied, changed or passed on as a whole."""
        raise Retry(a.key, U64)

    def deref_choice(self, p: ChoicePtr, e: Expr | None, node: Any) -> Value:
        which = p.which if cost(p.which) <= 3 else self.pinned_which(p.which, "which")
        return self.chosen(which, tuple(self.deref(c, e, node) for c in p.choices), node)

    def chosen(self, which: Expr, places: tuple[Value, ...], node: Any) -> Value:
        """One of several places of one type."""
        first = places[0]
        if isinstance(first, RecordVal):
            record = RecordVal(first.type, const=any(q.const for q in places))  # type: ignore[attr-defined]
            for name in first.fields:
                record.fields[name] = self.chosen(which, tuple(q.fields[name] for q in places), node)  # type: ignore[attr-defined]
            return record
        if isinstance(first, FlatArray | LaneArray):
            return ChoicePtr(which, tuple(self.load(q, node) for q in places))  # type: ignore[misc]
        return ChoicePlace(which, places, self.type_of(first))

    def load_choice(self, p: ChoicePlace, node: Any = None) -> RVal:
        self.use(p.which)
        values = [self.rvalue(c, node).expr for c in p.choices]
        out = values[-1]
        if isinstance(p.which, Select) and (p.which.a, p.which.b) == (i32(0), i32(1)):
            return RVal(Select(p.which.cond, values[0], out))
        for k in range(len(values) - 2, -1, -1):
            out = Select(Binary("==", p.which, i32(k)), values[k], out)
        return RVal(out)

    def store_choice(self, p: ChoicePlace, v: RVal, node: Any) -> None:
        value = v if isinstance(v.expr, Var | Const) else RVal(self.temp(v.expr, "value"))
        self.for_chosen(p.which, p.choices, lambda place: self.store(place, value, node))

    def for_chosen(self, which: Expr, choices: Sequence[Value], act: Callable[[Any], Any]) -> None:
        """``act`` on the one of ``choices`` that ``which`` says, in a branch for each."""
        self.use(which)
        orelse: tuple = ()
        for k in range(len(choices) - 1, -1, -1):
            with self.capture() as out:
                act(choices[k])
            last = k == len(choices) - 1
            orelse = tuple(out) if last else (If(Binary("==", which, i32(k)), tuple(out), orelse, loc=self.loc),)
        for s in orelse:
            self.emit(s)

    def choose_pointer(self, cond: Expr, a: Value, b: Value, node: Any) -> Value | None:
        """``cond ? a : b`` of pointers; None if one of them is no pointer into a buffer."""
        left, right = as_choice(a), as_choice(b)
        if left is None or right is None:
            return None
        choices = list(left.choices)
        moved = []
        for c in right.choices:
            place = (c.buffer, c.prefix, c.offset)
            same = [k for k, x in enumerate(choices) if (x.buffer, x.prefix, x.offset) == place]
            moved.append(same[0] if same else len(choices))
            if not same:
                choices.append(c)
        if not choices:
            return NullVal()
        which = self.simple(Select(cond, left.which, renumbered(right.which, moved)))
        if any(c.elem != choices[0].elem for c in choices):
            self.fail("E-SEMA-CONVERT", f"'?:' has pointers to '{show(choices[0].elem)}' and other types", node)
        return ChoicePtr(which, tuple(choices))

    def is_null(self, v: Value, node: Any) -> Expr:
        """Whether a pointer is ``nullptr``: one that is moved is where it started from ([expr.add])."""
        if isinstance(v, NullVal):
            return Const(True, BOOL)
        if isinstance(v, PtrToPlace):
            return Const(False, BOOL)
        if isinstance(v, ChoicePtr):
            return self._none_of(v, node)
        if not isinstance(v, PtrVal):
            self.fail("E-SEMA-VALUE", f"{describe(v)} is compared with a null pointer", node)
        if isinstance(v.buffer.type, Array):
            return Const(False, BOOL)
        return Call("is_null", (AddrOf(v.buffer, (i32(0),)),), BOOL)

    def _none_of(self, v: ChoicePtr, node: Any) -> Expr:
        """Whether a choice is ``nullptr``, or a parameter that is."""
        out = Const(False, BOOL) if points(v.which, self.known(), self.pinned) else absent(v.which)
        for k, c in enumerate(v.choices):
            null = self.is_null(c, node)
            if not isinstance(null, Const):
                here = null if v.which == i32(k) else Binary("&&", Binary("==", v.which, i32(k)), null)
                out = here if isinstance(out, Const) else Binary("||", out, here)
        return out

    # ------------------------------------------------------------------ nullptr
    def pinned_which(self, which: Expr, name: str) -> Var:
        """``which`` evaluated now, into a constant whose value is remembered."""
        out = self.temp(which, name)
        if not used(which) & self.changing:
            self.pinned[out.sym] = which
        elif points(which, self.known(), self.pinned):
            self.always.add((absent(out), False))
        return out

    def use(self, which: Expr) -> None:
        """A use of a pointer: a thread that comes here with ``nullptr`` stops."""
        if not points(which, self.known(), self.pinned):
            self.null_uses = True
            self.emit(null_use(which, self.loc))

    @contextmanager
    def given(self, cond: Expr, holds: bool) -> Iterator[None]:
        """Inside the ``with`` is an operand that is evaluated where ``cond`` holds, or does not."""
        lasting = {x for x in literals(cond, holds) if not used(x[0]) & self.changing - self.whiches}
        self.conditions.append((self.frame, self.frame.loops, lasting))
        try:
            yield
        finally:
            self.conditions.pop()

    def known(self) -> Literals:
        """What holds here, as far as pointers go. Conditions outside of a loop or a call are left to ``null_uses``."""
        here = (x for frame, loops, x in self.conditions if frame is self.frame and loops == frame.loops)
        return frozenset(self.always.union(*here))

    def moved(self, which: Sym) -> None:
        """``which`` changes: nothing is known of it any more."""
        self.conditions = [(f, n, set(without(frozenset(x), {which}))) for f, n, x in self.conditions]


def as_choice(v: Value) -> ChoicePtr | None:
    """Any pointer as a choice of pointers."""
    if isinstance(v, ChoicePtr):
        return v
    if isinstance(v, PtrVal):
        return ChoicePtr(i32(0), (v,))
    return ChoicePtr(i32(-1), ()) if isinstance(v, NullVal) else None


def renumbered(which: Expr, to: list[int]) -> Expr:
    """``to[which]``, with -1 staying -1."""
    if isinstance(which, Const):
        return which if which.value < 0 else i32(to[int(which.value)])
    if to == list(range(len(to))):
        return which
    if isinstance(which, Select):
        return Select(which.cond, renumbered(which.a, to), renumbered(which.b, to))
    out: Expr = i32(-1)
    for k, n in enumerate(to):
        out = Select(Binary("==", which, i32(k)), i32(n), out)
    return out


__all__ = ["Choices", "as_choice", "renumbered"]
