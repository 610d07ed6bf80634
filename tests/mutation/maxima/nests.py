"""Reading a nest of loops around ``m = max(m, f(e))``, where ``f`` hangs on the loops through one sum ``e`` alone.

A loop between numbers of which ``f`` itself hangs, such as one over the lanes of the vector at ``e``, belongs to ``f``:
it runs through the same values at every ``e``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Assign,
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Load,
    Sym,
    Var,
    VecGet,
    WarpOp,
)  # fmt: skip
from ktc.ir.types import Scalar, Vec
from ktc.ir.walk import assigned, map_expr, walk_expr
from ktc.search.verification.integers.formulas import increment
from tests.mutation.proofs.definitions import definitions

IDEMPOTENT = frozenset({"min", "max"})

MOST = 1 << 22
"""Elements of the period on which two sets are compared."""

Linear = Counter[Expr]
"""Coefficients of what is not a sum; ``Const(1)`` has the constant part."""


@dataclass(frozen=True)
class Value:
    """What an element gives: ``text``, whose loads have ``subscripts`` beside what loops count, for all values that the
    variables ``lanes`` run through."""

    text: Expr
    subscripts: tuple[Any, ...]
    lanes: Mapping[Sym, tuple[int, ...]]


@dataclass(frozen=True)
class Visits:
    """``first + t * thread + offsets + stride * N`` below ``bound``, ``t`` the thread's index along x: the ``fn`` of
    ``value`` at all of these, and of what it was, becomes ``into``."""

    into: Sym
    fn: str
    value: Value
    bound: Any
    first: Any
    thread: int
    offsets: frozenset[int]
    stride: int


class Reader:
    """Reads one nest."""

    def __init__(self, kernel: Kernel, nest: For) -> None:
        self.kernel, self.nest = kernel, nest
        changed = assigned(kernel.body) | assigned((nest,))
        self.changed = changed
        self.loops: dict[Sym, For] = {}
        self.given = definitions(kernel.body, (nest,))
        self.guards: list[Expr] = []

    def visits(self) -> Visits | None:
        leaf = self._descend((self.nest,))
        if leaf is None or not isinstance(leaf.value, Call) or leaf.value.fn not in IDEMPOTENT:
            return None
        rest = [a for a in leaf.value.args if a != Var(leaf.sym)]
        if len(rest) != 1 or any(isinstance(e, WarpOp) or e == Var(leaf.sym) for e in walk_expr(rest[0])):
            return None
        value = self._plain(rest[0])
        sums = {self._counted(self.linear(i)) for i in subscripts_of(value)} - {()}
        if len(sums) != 1:
            return None
        element = dict(next(iter(sums)))
        return self._set(leaf, leaf.value.fn, value, element)

    def _descend(self, body: Body) -> Assign | None:
        """The one assignment inside, on the way the loops, guards and definitions."""
        rest = [s for s in body if not isinstance(s, Decl)]
        if len(rest) != 1 or any(isinstance(s, Decl) and s.sym not in self.given for s in body):
            return None
        (s,) = rest
        if isinstance(s, Assign):
            return s if isinstance(s.sym.type, Scalar) else None
        if isinstance(s, For) and s.var not in assigned(s.body):
            self.loops[s.var] = s
            return self._descend(s.body)
        if isinstance(s, If) and not s.orelse:
            self.guards.append(s.cond)
            return self._descend(s.then)
        return None

    def _set(self, leaf: Assign, fn: str, value: Expr, element: dict[Expr, int]) -> Visits | None:
        """The elements, if every loop counts up, and all but the outermost to a number."""
        marked = self._marked(value)
        if marked is None:
            return None
        outer, *inner = (s for v, s in self.loops.items() if v not in marked.lanes)
        if element.get(Var(outer.var)) != 1 or set(element) != {Var(s.var) for s in (outer, *inner)}:
            return None
        offsets = {0}
        for s in inner:
            values = self.counting(s)
            if values is None or element[Var(s.var)] < 0:
                return None
            offsets = {o + element[Var(s.var)] * v for o in offsets for v in values}
        first, stride, end = self.linear(outer.init), self._step(outer), self._end(outer, Var(outer.var))
        guards = [self._end_of(g, element) for g in self.guards]
        if stride is None or end is None or len(offsets) * stride > MOST or (offsets != {0} and not guards):
            return None
        if any(g != end for g in guards):
            return None
        thread = first.pop(HwIndex("thread", "x"), 0)
        start = first.pop(_ONE, 0)
        if min(offsets) < 0 or any(isinstance(e, HwIndex) and e.level == "thread" for k in first for e in walk_expr(k)):
            return None
        shifted = frozenset(o + start for o in offsets)
        return None if min(shifted) < 0 else Visits(
            leaf.sym, fn, marked, end, _frozen(first), thread, shifted, stride)  # fmt: skip

    def counting(self, s: For) -> list[int] | None:
        """The values of a loop between numbers."""
        first, step = self._number(s.init), self._step(s)
        end = self._end(s, Var(s.var))
        known = dict(end) if end is not None else {None: 0}
        if first is None or step is None or set(known) - {_ONE} or first < 0:
            return None
        return list(range(first, known.get(_ONE, 0), step)) if known.get(_ONE, 0) <= MOST else None

    def _step(self, s: For) -> int | None:
        by = increment(s)
        step = None if by is None else self._number(by)
        return step if step is not None and step > 0 else None

    def _end(self, s: For, var: Expr) -> Any:
        return self._end_of(s.cond, {var: 1})

    def _end_of(self, cond: Expr, element: dict[Expr, int]) -> Any:
        """What ``cond`` says ``element`` is below; None if it says something else."""
        if not isinstance(cond, Binary) or cond.op not in ("<", "<="):
            return None
        low, high = self.linear(cond.a), self.linear(cond.b)
        if cond.op == "<=":
            high[_ONE] += 1
        if dict(self._counted(low)) != element or self._counted(high):
            return None
        for e, n in low.items():
            if e not in element:
                high[e] -= n
        return _frozen(high) if all(self._lasting(e) for e in high) else None

    def _lasting(self, e: Expr) -> bool:
        return not any(
            isinstance(x, Load | WarpOp | Call) or (isinstance(x, Var) and x.sym in self.changed) for x in walk_expr(e)
        )

    # ------------------------------------------------------------------------------------------------- expressions

    def linear(self, e: Expr) -> Linear:
        """``e`` as a sum; what is defined once stands for its value."""
        while isinstance(e, Cast) and _whole(e.to) and _whole(e.x.type):
            e = e.x
        number = self._number(e)
        if number is not None:
            return Counter({_ONE: number})
        if isinstance(e, Var) and e.sym in self.given:
            return self.linear(self.given[e.sym])
        if isinstance(e, Binary) and e.op in ("+", "-"):
            a, b = self.linear(e.a), self.linear(e.b)
            for x, n in b.items():
                a[x] += n if e.op == "+" else -n
            return a
        if isinstance(e, Binary) and e.op == "*":
            for x, y in ((e.a, e.b), (e.b, e.a)):
                by = self._number(x)
                if by is not None:
                    return Counter({k: n * by for k, n in self.linear(y).items()})
        return Counter({self._plain(e): 1})

    def _number(self, e: Expr) -> int | None:
        while isinstance(e, Cast) and _whole(e.to) and _whole(e.x.type):
            e = e.x
        launch = self.kernel.launch
        if isinstance(e, HwIndex) and e.level == "block_dim" and launch is not None:
            e = launch.block["xyz".index(e.axis)]
        found = evaluate(e, self.kernel.knob_values) if _whole(e.type) else None
        return None if found is None else int(found)

    def _plain(self, e: Expr) -> Expr:
        """``e`` without names for what is defined once."""

        def on(x: Expr) -> Expr:
            if isinstance(x, Load) and isinstance(x.buffer.type, Vec) and x.buffer in self.given and x.width == 1:
                return VecGet(self._plain(self.given[x.buffer]), x.index[0])
            return self._plain(self.given[x.sym]) if isinstance(x, Var) and x.sym in self.given else x

        return map_expr(e, on)

    def _counted(self, form: Linear) -> tuple[tuple[Expr, int], ...]:
        """The part of a sum that loop variables are."""
        return tuple((e, n) for e, n in form.items() if isinstance(e, Var) and e.sym in self.loops and n)

    def _marked(self, value: Expr) -> Value | None:
        """``value`` with the loop variables left out of its subscripts: the same text is the same function of them."""
        subscripts = []

        def on(x: Expr) -> Expr:
            if not isinstance(x, Load):
                return x
            sums = [self.linear(i) for i in x.index]
            fixed = tuple(_frozen(f) - set(self._counted(f)) for f in sums)
            subscripts.append((x.buffer, x.width, fixed, tuple(bool(self._counted(f)) for f in sums)))
            return replace(x, index=tuple(_ONE for _ in x.index))

        text = map_expr(value, on)
        counted = {v for i in subscripts_of(value) for v, _ in self._counted(self.linear(i))}
        lanes: dict[Sym, tuple[int, ...]] = {}
        for e in walk_expr(text):
            if isinstance(e, Var) and e.sym in self.loops:
                values = self.counting(self.loops[e.sym])
                if values is None or e in counted:
                    return None
                lanes[e.sym] = tuple(values)
        return Value(text, tuple(subscripts), lanes)


def subscripts_of(value: Expr) -> list[Expr]:
    """The subscripts of all loads in ``value``."""
    return [i for e in walk_expr(value) if isinstance(e, Load) for i in e.index]


_ONE: Expr = Const(1, Scalar("int", 64))


def _whole(t: object) -> bool:
    return isinstance(t, Scalar) and t.is_int


def _frozen(form: Linear) -> frozenset[tuple[Expr, int]]:
    return frozenset((e, n) for e, n in form.items() if n)


__all__ = ["IDEMPOTENT", "MOST", "Reader", "Value", "Visits"]
