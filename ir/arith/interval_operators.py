"""The least interval that holds every result of an operator, as tables of operators.

Numbers are unbounded here: whether a result fits its type is for the caller to ask (:meth:`.Interval.wrapped`).
Operators mean what C's do: quotients truncate, remainders have the sign of the dividend. Of an operator that has no
value (a quotient by zero) nothing is promised.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .interval import ANY, NATURAL, TRUTH, End, Interval, between, ends, hull, is_finite

WIDEST = 64
"""Bits of the widest type: no shift by more has a meaning that depends on the amount."""


# ------------------------------------------------------------------------------------------------------- operators


def _sum(a: Interval, b: Interval) -> Interval:
    return Interval(
        None if a.low is None or b.low is None else a.low + b.low,
        None if a.high is None or b.high is None else a.high + b.high,
    )


def _negated(a: Interval) -> Interval:
    return Interval(None if a.high is None else -a.high, None if a.low is None else -a.low)


def _times(x: End, y: End) -> End:
    if x == 0 or y == 0:
        return 0
    return x * y if is_finite(x) and is_finite(y) else (math.inf if (x > 0) == (y > 0) else -math.inf)


def _product(a: Interval, b: Interval) -> Interval:
    if a.low is not None and b.low is not None and a.low >= 0 and b.low >= 0:
        return Interval(a.low * b.low, _highest_product(a, b))
    return hull(_times(x, y) for x in ends(a) for y in ends(b))


def _highest_product(a: Interval, b: Interval) -> int | None:
    """Of two that are never negative."""
    if a.high is None or b.high is None:
        return 0 if 0 in (a.high, b.high) else None
    return a.high * b.high


def _divided(x: End, y: End) -> End:
    """``x / y``, truncated; what is divided by an infinity vanishes."""
    if not is_finite(y):
        return 0
    if not is_finite(x):
        return x if y > 0 else -x
    q = abs(int(x)) // abs(int(y))
    return q if (x < 0) == (y < 0) else -q


def _quotient(a: Interval, b: Interval) -> Interval:
    divisors = [d for d in (b.meet(Interval(None, -1)), b.meet(Interval(1, None))) if not d.is_empty]
    if not divisors:
        return ANY
    return hull(_divided(x, y) for d in divisors for x in ends(a) for y in ends(d))


def _remainder(a: Interval, b: Interval) -> Interval:
    """It has the sign of ``a``, is no larger than ``a``, and smaller than ``b``."""
    least, most = ends(_magnitude(b))
    if most == 0:
        return ANY
    if a.within(between(1 - least, least - 1)) and least > 0:
        return a
    low, high = ends(a)
    return between(max(min(low, 0), 1 - most), min(max(high, 0), most - 1))


def _rounded_up(a: Interval, b: Interval) -> Interval:
    """``cdiv(a, b)`` for positive ``b``. Of a negative ``a`` implementations differ (``(a + b - 1) / b`` truncates, a
    ceiling does not): both are in it."""
    b = b.meet(Interval(1, None))
    if b.is_empty:
        return ANY
    ceilings = hull(-_floor_divided(-x, y) for x in ends(a) for y in ends(b))
    return ceilings if a.never_negative else ceilings.join(Interval.point(0))


def _floor_divided(x: End, y: End) -> End:
    if is_finite(x) and is_finite(y):
        return int(x) // int(y)
    return (0 if x >= 0 else -1) if is_finite(x) else x


def _shifted_left(a: Interval, n: Interval) -> Interval:
    n = n.meet(Interval(0, WIDEST))
    return _product(a, Interval(1 << (n.low or 0), 1 << (n.high or 0))) if not n.is_empty else ANY


def _shifted_right(a: Interval, n: Interval) -> Interval:
    """Floor division by a power of two, as arithmetic shifts do."""
    n = n.meet(Interval(0, WIDEST))
    if n.is_empty:
        return ANY
    return hull(_floor_divided(x, 1 << int(y)) for x in ends(a) for y in ends(n))


def _magnitude(a: Interval) -> Interval:
    if a.never_negative:
        return a
    if a.high is not None and a.high <= 0:
        return _negated(a)
    low, high = ends(a)
    return between(0, max(-low, high))


def _bits_in_common(a: Interval, b: Interval) -> Interval:
    """``a & b``: no more than either that is not negative."""
    tops = [ends(x)[1] for x in (a, b) if x.never_negative]
    if tops:
        return _exact(a, b, lambda x, y: x & y) or between(0, min(tops))
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
    low, high = ends(a.join(b))
    if not is_finite(low) or not is_finite(high):
        return NATURAL if low >= 0 else ANY
    bits = max(int(high).bit_length(), (-int(low) - 1).bit_length() if low < 0 else 0)
    return Interval(0 if low >= 0 else -(1 << bits), (1 << bits) - 1)


def _smaller(a: Interval, b: Interval) -> Interval:
    (p, q), (r, s) = ends(a), ends(b)
    return between(min(p, r), min(q, s))


def _larger(a: Interval, b: Interval) -> Interval:
    (p, q), (r, s) = ends(a), ends(b)
    return between(max(p, r), max(q, s))


# ----------------------------------------------------------------------------------------------------- comparisons


def _less(a: Interval, b: Interval) -> bool | None:
    (p, q), (r, s) = ends(a), ends(b)
    return True if q < r else False if p >= s else None


def _at_most(a: Interval, b: Interval) -> bool | None:
    (p, q), (r, s) = ends(a), ends(b)
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

__all__ = ["BINARY", "CALLS", "DECIDED", "UNARY", "WIDEST", "truth_of", "truth_values"]
