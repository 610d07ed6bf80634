"""The algebras of what encloses a value: intervals and congruences, wrapped where a type is too narrow.

What is known beyond an operator's operands (a guard, a declared range, a promise of the launch) comes from ``known``,
which each node is met with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ktc.ir.nodes import COMPARISONS, LOGICAL, Binary, Call, Cast, Const, Expr, HwIndex, Knob, Select, Unary
from ktc.ir.types import Scalar, Type
from ktc.ir.walk import walk_expr

from . import congruence
from . import interval_operators as interval
from .congruence import ANYTHING, Congruence
from .integer_casts import is_index_cast, without_index_casts, without_widening
from .interval import ANY, Interval
from .interval_operators import truth_of, truth_values
from .trust import Trust

INDEX_LIMIT = Interval(0, (1 << 31) - 1)
"""What arithmetic of hardware indices stays in, where :attr:`Trust.indices` says so."""

_MAY_OVERFLOW = frozenset({"+", "-", "*", "/"})
"""Operators whose signed results have no value outside of their type; what a shift moves out is gone."""

_NUMBERING = frozenset({"+", "*", "/", "%", ">>", "&"})


def is_integer(t: Type) -> bool:
    """Whether values of the type are integers (a truth value is one: 0 or 1)."""
    return isinstance(t, Scalar) and (t.is_int or t.kind == "bool")


def type_interval(t: Type) -> Interval:
    """All values of a type; anything where it is not one of integers."""
    return Interval.of_type(t) if isinstance(t, Scalar) and is_integer(t) else ANY


@dataclass
class Intervals:
    """The algebra of intervals."""

    trust: Trust
    known: Callable[[Expr], Interval | None]

    def leaf(self, e: Expr) -> Interval:
        return self._met(e, type_interval(e.type))

    def constant(self, e: Const) -> Interval:
        return ANY if isinstance(e.value, float) else Interval.point(int(e.value)).wrapped(e.ty)

    def unary(self, e: Unary, x: Interval) -> Interval:
        return self._met(e, self.fitted(interval.UNARY[e.op](x), e.type)) if is_integer(e.x.type) else self.leaf(e)

    def binary(self, e: Binary, a: Interval, b: Interval) -> Interval:
        raw = self.raw(e, a, b)
        if e.op in _MAY_OVERFLOW or not isinstance(e.type, Scalar):
            return self._met(e, self.fitted(raw, e.type))
        return self._met(e, raw.wrapped(e.type))

    def select(self, e: Select, cond: Interval, a: Interval, b: Interval) -> Interval:
        if not is_integer(e.type):
            return ANY
        holds, one = truth_of(cond), extreme_of(e)
        if holds is not None:
            return self._met(e, a if holds else b)
        return self._met(e, a.join(b) if one is None else interval.CALLS[one](a, b))

    def convert(self, e: Cast, x: Interval) -> Interval:
        if not isinstance(e.to, Scalar) or not is_integer(e.to) or not is_integer(e.x.type):
            return self.leaf(e)
        return self._met(e, truth_values(truth_of(x)) if e.to.kind == "bool" else x.wrapped(e.to))

    def call(self, e: Call, args: Sequence[Interval]) -> Interval:
        op = interval.CALLS.get(e.fn)
        if op is None or not is_integer(e.type):
            return self.leaf(e)
        if e.fn == "cdiv" and not self._adds_up(e.type, *args):
            return self.leaf(e)
        return self._met(e, self.fitted(op(*args), e.type))

    def raw(self, e: Binary, a: Interval, b: Interval) -> Interval:
        """What ``e`` gives before it is brought to its type."""
        if not is_integer(e.a.type):
            return truth_values(None) if e.op in COMPARISONS | LOGICAL else ANY
        if e.op in ("<<", ">>"):
            return _shifted(e, a, b)
        found = interval.BINARY[e.op](a, b)
        if self.trust.threads is not None and e.op in ("+", "*") and thread_number(e) is not None:
            found = found.meet(Interval(0, self.trust.threads - 1))
        if self.trust.indices and not found.within(INDEX_LIMIT) and numbers_threads(e):
            found = found.meet(INDEX_LIMIT)
        return found

    def fitted(self, raw: Interval, t: Type) -> Interval:
        """``raw`` brought to the type in which it was computed."""
        if not isinstance(t, Scalar):
            return ANY
        whole = Interval.of_type(t)
        if raw.within(whole):
            return raw
        if self.trust.no_overflow and t.is_signed and t.bits >= 32:
            left = raw.meet(whole)
            return whole if left.is_empty else left
        return raw.wrapped(t)

    def _adds_up(self, t: Type, a: Interval, b: Interval) -> bool:
        """Whether ``(a + b - 1) / b`` computes the rounded quotient: for an overflow that has a value it does not."""
        total = interval.BINARY["+"](a, b)
        return total.within(type_interval(t)) or (isinstance(t, Scalar) and t.is_signed and self.trust.no_overflow)

    def _met(self, e: Expr, v: Interval) -> Interval:
        more = self.known(e)
        if more is None:
            return v
        both = v.meet(more)
        return v if both.is_empty else both


def extreme_of(e: Select) -> str | None:
    """``min`` for ``a < b ? a : b`` and what else chooses the smaller one, ``max`` for the larger; None for others."""
    c = e.cond
    if not isinstance(c, Binary) or c.op not in ("<", "<=", ">", ">="):
        return None
    compared, chosen = [tuple(map(without_widening, pair)) for pair in ((c.a, c.b), (e.a, e.b))]
    if chosen not in (compared, compared[::-1]):
        return None
    return "min" if (c.op in ("<", "<=")) == (chosen == compared) else "max"


def _shifted(e: Binary, a: Interval, b: Interval) -> Interval:
    """A shift by the width or more leaves nothing but the sign."""
    t = e.type
    assert isinstance(t, Scalar)
    amounts = b.meet(Interval(0, t.bits - 1))
    found = None if amounts.is_empty else interval.BINARY[e.op](a, amounts)
    if b == amounts and found is not None:
        return found
    nothing = Interval.point(0)
    if e.op == ">>" and not a.never_negative:
        nothing = Interval(-1, 0)
    return nothing if found is None else found.join(nothing)


@dataclass
class Congruences:
    """The algebra of congruences. ``exact`` says of a node that it gives what its operator does, without wrapping."""

    exact: Callable[[Expr], bool]
    known: Callable[[Expr], Congruence | None]
    truth: Callable[[Expr], bool | None]

    def leaf(self, e: Expr) -> Congruence:
        return self.known(e) or ANYTHING

    def constant(self, e: Const) -> Congruence:
        return ANYTHING if isinstance(e.value, float) else Congruence.point(int(e.value))

    def unary(self, e: Unary, x: Congruence) -> Congruence:
        op = congruence.UNARY.get(e.op)
        return self.leaf(e) if op is None else self._met(e, op(x))

    def binary(self, e: Binary, a: Congruence, b: Congruence) -> Congruence:
        op = congruence.BINARY.get(e.op)
        if op is None or not is_integer(e.type):
            return self.leaf(e)
        if e.op in ("<<", ">>") and not _within_width(e, b):
            return self.leaf(e)
        return self._met(e, op(a, b))

    def select(self, e: Select, cond: Congruence, a: Congruence, b: Congruence) -> Congruence:
        holds = self.truth(e.cond)
        return self._known(e, a.join(b) if holds is None else a if holds else b)

    def convert(self, e: Cast, x: Congruence) -> Congruence:
        if not isinstance(e.to, Scalar) or not e.to.is_int or not is_integer(e.x.type):
            return self.leaf(e)
        return self._met(e, x)

    def call(self, e: Call, args: Sequence[Congruence]) -> Congruence:
        op = congruence.CALLS.get(e.fn)
        return self.leaf(e) if op is None or not is_integer(e.type) else self._known(e, op(*args))

    def _met(self, e: Expr, c: Congruence) -> Congruence:
        t = e.type
        return self._known(e, c if self.exact(e) or not isinstance(t, Scalar) else _in_type(c, t))

    def _known(self, e: Expr, c: Congruence) -> Congruence:
        more = self.known(e)
        return c if more is None else c.meet(more)


def _within_width(e: Binary, by: Congruence) -> bool:
    t = e.type
    return isinstance(t, Scalar) and by.constant is not None and 0 <= by.constant < t.bits


def _in_type(c: Congruence, t: Scalar) -> Congruence:
    n = c.constant
    if n is not None and n in Interval.of_type(t):
        return c
    return c.wrapped(t.bits)


# ------------------------------------------------------------------------------------------ hardware indices' meaning


def numbers_threads(e: Expr) -> bool:
    """Whether ``e`` is arithmetic of hardware indices, knobs and numbers, as it numbers threads or blocks."""
    below = list(walk_expr(e))
    return any(isinstance(x, HwIndex) for x in below) and all(
        isinstance(x, HwIndex | Knob)
        or (isinstance(x, Const) and not isinstance(x.value, float) and x.value in INDEX_LIMIT)
        or (isinstance(x, Cast) and is_index_cast(x))
        or (isinstance(x, Binary) and x.op in _NUMBERING)
        for x in below
    )


def thread_number(e: Binary) -> str | None:
    """The axis of which ``e`` is a thread's number (``block * block_dim + thread``), or that of a block's first one."""
    a, b = without_index_casts(e.a), without_index_casts(e.b)
    if e.op == "*" and isinstance(a, HwIndex) and isinstance(b, HwIndex):
        return a.axis if {a.level, b.level} == {"block", "block_dim"} and a.axis == b.axis else None
    for first, own in ((a, b), (b, a)):
        if e.op == "+" and isinstance(own, HwIndex) and own.level == "thread" and isinstance(first, Binary):
            axis = thread_number(first) if first.op == "*" else None
            return axis if axis == own.axis else None
    return None


__all__ = ["Congruences", "Intervals", "is_integer", "numbers_threads", "thread_number", "type_interval"]
