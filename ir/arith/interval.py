"""Intervals of integers, and the least interval that holds every result of an operator.

Numbers are unbounded here: whether a result fits its type is for the caller to ask (:meth:`Interval.wrapped`). Bounds
are inclusive; None stands for no bound. Operators mean what C's do: quotients truncate, remainders have the sign of the
dividend. Of an operator that has no value (a quotient by zero) nothing is promised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ktc.ir.types import Scalar

_End = int | float
"""A bound: an integer, or one of the two infinities."""

WIDEST = 64
"""Bits of the widest type: no shift by more has a meaning that depends on the amount."""


@dataclass(frozen=True)
class Interval:
    """The integers from ``low`` to ``high``, both included; None: there is no such bound."""

    low: int | None = None
    high: int | None = None

    @staticmethod
    def of_type(t: Scalar) -> Interval:
        """All values of an integer type, or of bool."""
        if t.kind == "bool":
            return Interval(0, 1)
        if t.is_signed:
            return Interval(-(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1)
        return Interval(0, (1 << t.bits) - 1)

    @staticmethod
    def point(n: int) -> Interval:
        return Interval(n, n)

    @property
    def is_empty(self) -> bool:
        return self.low is not None and self.high is not None and self.low > self.high

    @property
    def constant(self) -> int | None:
        """The one integer that there is, if it is one."""
        return self.low if self.low is not None and self.low == self.high else None

    @property
    def never_negative(self) -> bool:
        return self.low is not None and self.low >= 0

    @property
    def positive(self) -> bool:
        return self.low is not None and self.low > 0

    def __contains__(self, n: int) -> bool:
        return (self.low is None or self.low <= n) and (self.high is None or n <= self.high)

    def within(self, other: Interval) -> bool:
        """Whether all of it lies in ``other``."""
        (a, b), (c, d) = _ends(self), _ends(other)
        return self.is_empty or (c <= a and b <= d)

    def fits(self, t: Scalar) -> bool:
        """Whether the type ``t`` holds all of it."""
        return self.within(Interval.of_type(t))

    def join(self, other: Interval) -> Interval:
        """The least interval that holds both."""
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        (a, b), (c, d) = _ends(self), _ends(other)
        return _interval(min(a, c), max(b, d))

    def meet(self, other: Interval) -> Interval:
        """What lies in both; :data:`EMPTY` where nothing does."""
        (a, b), (c, d) = _ends(self), _ends(other)
        low, high = max(a, c), min(b, d)
        return _interval(low, high) if low <= high else EMPTY

    def wrapped(self, t: Scalar) -> Interval:
        """What arithmetic modulo the size of ``t`` makes of it: exact where all of it wraps equally often."""
        whole = Interval.of_type(t)
        if self.within(whole):
            return self
        if t.kind == "bool":
            return Interval.point(1) if 0 not in self else whole
        if self.low is None or self.high is None:
            return whole
        assert whole.low is not None
        turns = (self.low - whole.low) >> t.bits
        if turns != (self.high - whole.low) >> t.bits:
            return whole
        return Interval(self.low - (turns << t.bits), self.high - (turns << t.bits))

    def __str__(self) -> str:
        low, high = ("" if x is None else str(x) for x in (self.low, self.high))
        return "nothing" if self.is_empty else f"{low}..{high}"


EMPTY = Interval(1, 0)
ANY = Interval()
NATURAL = Interval(0, None)
TRUTH = Interval(0, 1)


def _ends(i: Interval) -> tuple[_End, _End]:
    return (-math.inf if i.low is None else i.low, math.inf if i.high is None else i.high)


def _interval(low: _End, high: _End) -> Interval:
    return Interval(None if low == -math.inf else int(low), None if high == math.inf else int(high))


def _hull(corners: Iterable[_End]) -> Interval:
    found = list(corners)
    return _interval(min(found), max(found))


def _is_finite(x: _End) -> bool:
    return isinstance(x, int)


# ------------------------------------------------------------------------------------------------------- operators


def _sum(a: Interval, b: Interval) -> Interval:
    return Interval(
        None if a.low is None or b.low is None else a.low + b.low,
        None if a.high is None or b.high is None else a.high + b.high,
    )


def _negated(a: Interval) -> Interval:
    return Interval(None if a.high is None else -a.high, None if a.low is None else -a.low)


def _times(x: _End, y: _End) -> _End:
    if x == 0 or y == 0:
        return 0
    return x * y if _is_finite(x) and _is_finite(y) else (math.inf if (x > 0) == (y > 0) else -math.inf)


def _product(a: Interval, b: Interval) -> Interval:
    return _hull(_times(x, y) for x in _ends(a) for y in _ends(b))


def _divided(x: _End, y: _End) -> _End:
    """``x / y``, truncated; what is divided by an infinity vanishes."""
    if not _is_finite(y):
        return 0
    if not _is_finite(x):
        return x if y > 0 else -x
    q = abs(int(x)) // abs(int(y))
    return q if (x < 0) == (y < 0) else -q


def _quotient(a: Interval, b: Interval) -> Interval:
    divisors = [d for d in (b.meet(Interval(None, -1)), b.meet(Interval(1, None))) if not d.is_empty]
    if not divisors:
        return ANY
    return _hull(_divided(x, y) for d in divisors for x in _ends(a) for y in _ends(d))


def _remainder(a: Interval, b: Interval) -> Interval:
    """It has the sign of ``a``, is no larger than ``a``, and smaller than ``b``."""
    least, most = _ends(_magnitude(b))
    if most == 0:
        return ANY
    if a.within(_interval(1 - least, least - 1)) and least > 0:
        return a
    low, high = _ends(a)
    return _interval(max(min(low, 0), 1 - most), min(max(high, 0), most - 1))


def _rounded_up(a: Interval, b: Interval) -> Interval:
    """``cdiv(a, b)`` for positive ``b``. Of a negative ``a`` implementations differ (``(a + b - 1) / b`` truncates, a
    ceiling does not): both are in it."""
    b = b.meet(Interval(1, None))
    if b.is_empty:
        return ANY
    ceilings = _hull(-_floor_divided(-x, y) for x in _ends(a) for y in _ends(b))
    return ceilings if a.never_negative else ceilings.join(Interval.point(0))


def _floor_divided(x: _End, y: _End) -> _End:
    if _is_finite(x) and _is_finite(y):
        return int(x) // int(y)
    return (0 if x >= 0 else -1) if _is_finite(x) else x


def _shifted_left(a: Interval, n: Interval) -> Interval:
    n = n.meet(Interval(0, WIDEST))
    return _product(a, Interval(1 << (n.low or 0), 1 << (n.high or 0))) if not n.is_empty else ANY


def _shifted_right(a: Interval, n: Interval) -> Interval:
    """Floor division by a power of two, as arithmetic shifts do."""
    n = n.meet(Interval(0, WIDEST))
    if n.is_empty:
        return ANY
    return _hull(_floor_divided(x, 1 << int(y)) for x in _ends(a) for y in _ends(n))


def _magnitude(a: Interval) -> Interval:
    if a.never_negative:
        return a
    if a.high is not None and a.high <= 0:
        return _negated(a)
    low, high = _ends(a)
    return _interval(0, max(-low, high))


def _bits_in_common(a: Interval, b: Interval) -> Interval:
    """``a & b``: no more than either that is not negative."""
    tops = [_ends(x)[1] for x in (a, b) if x.never_negative]
    if tops:
        return _exact(a, b, lambda x, y: x & y) or _interval(0, min(tops))
    return _exact(a, b, lambda x, y: x & y) or _of_as_many_bits(a, b)


def _bits_of_either(a: Interval, b: Interval) -> Interval:
    """``a | b`` of two that are not negative is at least each of them."""
    whole = _exact(a, b, lambda x, y: x | y) or _of_as_many_bits(a, b)
    if a.never_negative and b.never_negative:
        return whole.meet(Interval(max(a.low or 0, b.low or 0), None))
    return whole


def _bits_that_differ(a: Interval, b: Interval) -> Interval:
    return _exact(a, b, lambda x, y: x ^ y) or _of_as_many_bits(a, b)


def _exact(a: Interval, b: Interval, op: Callable[[int, int], int]) -> Interval | None:
    x, y = a.constant, b.constant
    return Interval.point(op(x, y)) if x is not None and y is not None else None


def _of_as_many_bits(a: Interval, b: Interval) -> Interval:
    """What bitwise operators make of numbers of so many bits: none has more, and without signs none gets one."""
    low, high = _ends(a.join(b))
    if not _is_finite(low) or not _is_finite(high):
        return NATURAL if low >= 0 else ANY
    bits = max(int(high).bit_length(), (-int(low) - 1).bit_length() if low < 0 else 0)
    return Interval(0 if low >= 0 else -(1 << bits), (1 << bits) - 1)


def _smaller(a: Interval, b: Interval) -> Interval:
    (p, q), (r, s) = _ends(a), _ends(b)
    return _interval(min(p, r), min(q, s))


def _larger(a: Interval, b: Interval) -> Interval:
    (p, q), (r, s) = _ends(a), _ends(b)
    return _interval(max(p, r), max(q, s))


# ----------------------------------------------------------------------------------------------------- comparisons


def _less(a: Interval, b: Interval) -> bool | None:
    (p, q), (r, s) = _ends(a), _ends(b)
    return True if q < r else False if p >= s else None


def _at_most(a: Interval, b: Interval) -> bool | None:
    (p, q), (r, s) = _ends(a), _ends(b)
    return True if q <= r else False if p > s else None


def _equal(a: Interval, b: Interval) -> bool | None:
    if a.meet(b).is_empty:
        return False
    return True if a.constant is not None and a.constant == b.constant else None


def _not(x: bool | None) -> bool | None:
    return None if x is None else not x


DECIDED: dict[str, Callable[[Interval, Interval], bool | None]] = {
    "<": _less,
    "<=": _at_most,
    ">": lambda a, b: _less(b, a),
    ">=": lambda a, b: _at_most(b, a),
    "==": _equal,
    "!=": lambda a, b: _not(_equal(a, b)),
}
"""Comparisons: how they come out for all values of both operands, None where not for all alike."""


def _conjunction(a: Interval, b: Interval) -> bool | None:
    x, y = truth_of(a), truth_of(b)
    return False if False in (x, y) else True if x and y else None


def truth_of(a: Interval) -> bool | None:
    """Whether a value that lies in ``a`` counts as true."""
    return None if a.is_empty else False if a.constant == 0 else True if 0 not in a else None


def truth_values(x: bool | None) -> Interval:
    """The interval of a condition that comes out like this."""
    return TRUTH if x is None else Interval.point(int(x))


_LOGICAL: dict[str, Callable[[Interval, Interval], bool | None]] = {
    "&&": _conjunction,
    "||": lambda a, b: _not(_conjunction(truth_values(_not(truth_of(a))), truth_values(_not(truth_of(b))))),
}


def _as_interval(decide: Callable[[Interval, Interval], bool | None]) -> Callable[[Interval, Interval], Interval]:
    return lambda a, b: truth_values(decide(a, b))


BINARY: dict[str, Callable[[Interval, Interval], Interval]] = {
    "+": _sum,
    "-": lambda a, b: _sum(a, _negated(b)),
    "*": _product,
    "/": _quotient,
    "%": _remainder,
    "<<": _shifted_left,
    ">>": _shifted_right,
    "&": _bits_in_common,
    "|": _bits_of_either,
    "^": _bits_that_differ,
    **{op: _as_interval(decide) for op, decide in (DECIDED | _LOGICAL).items()},
}
UNARY: dict[str, Callable[[Interval], Interval]] = {
    "+": lambda a: a,
    "-": _negated,
    "~": lambda a: _sum(_negated(a), Interval.point(-1)),
    "!": lambda a: truth_values(_not(truth_of(a))),
}
CALLS: dict[str, Callable[..., Interval]] = {
    "min": _smaller,
    "max": _larger,
    "abs": _magnitude,
    "cdiv": _rounded_up,
}

__all__ = [
    "ANY", "BINARY", "CALLS", "DECIDED", "EMPTY", "NATURAL", "TRUTH", "UNARY", "WIDEST", "Interval", "truth_of",
    "truth_values",
]  # fmt: skip
