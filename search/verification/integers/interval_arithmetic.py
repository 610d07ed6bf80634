"""Operators on intervals of integers: the least interval that holds every result, None where nothing is known.

Numbers are unbounded: whether a result fits its type is for the caller to ask. Bounds are inclusive.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

Interval = tuple[int, int]

WIDEST = 64
"""Bits: a shift by more has no meaning."""


def _product(a: Interval, b: Interval) -> Interval:
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _quotient(a: Interval, b: Interval) -> Interval | None:
    """Of a divisor that may be negative or zero is known that it makes nothing larger: by zero nothing is divided."""
    if b[0] <= 0:
        most = max(abs(x) for x in a)
        return (-most, most) if b != (0, 0) else None
    corners = [x // y if x >= 0 else -(-x // y) for x in a for y in b]
    return min(corners), max(corners)


def _remainder(a: Interval, b: Interval) -> Interval | None:
    """C's: it has the sign of ``a``, and is no larger than ``a``, and smaller than ``b``."""
    if b == (0, 0):
        return None
    if a[0] >= 0 and a[1] < b[0]:
        return a
    most = max(abs(x) for x in b) - 1
    return max(min(a[0], 0), -most), min(max(a[1], 0), most)


def _rounded_up(a: Interval, b: Interval) -> Interval | None:
    corners = [-(-x // y) for x in a for y in b] if b[0] > 0 else []
    return (min(corners), max(corners)) if corners else None


def _shift(move: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval | None]:
    def shifted(a: Interval, b: Interval) -> Interval | None:
        if b[0] < 0 or b[1] >= WIDEST:
            return None
        corners = [move(x, y) for x in a for y in b]
        return min(corners), max(corners)

    return shifted


def _mask(a: Interval, b: Interval) -> Interval | None:
    """Bits in common: no more than either that is not negative."""
    tops = [x[1] for x in (a, b) if x[0] >= 0]
    return (0, min(tops)) if tops else None


BINARY: dict[str, Callable[[Interval, Interval], Interval | None]] = {
    "+": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "-": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "*": _product,
    "/": _quotient,
    "%": _remainder,
    ">>": _shift(operator.rshift),
    "<<": _shift(operator.lshift),
    "&": _mask,
}
DECIDE: dict[str, Callable[[Interval, Interval], bool | None]] = {
    "<": lambda a, b: True if a[1] < b[0] else False if a[0] >= b[1] else None,
    "<=": lambda a, b: True if a[1] <= b[0] else False if a[0] > b[1] else None,
    ">": lambda a, b: True if a[0] > b[1] else False if a[1] <= b[0] else None,
    ">=": lambda a, b: True if a[0] >= b[1] else False if a[1] < b[0] else None,
    "==": lambda a, b: False if a[1] < b[0] or b[1] < a[0] else True if a == b and a[0] == a[1] else None,
    "!=": lambda a, b: True if a[1] < b[0] or b[1] < a[0] else False if a == b and a[0] == a[1] else None,
}
CALLS: dict[str, Callable[[Interval, Interval], Interval | None]] = {
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "cdiv": _rounded_up,
}

BOUNDING = frozenset({"%", "&", "/", ">>"})
"""Operators that say something of a result though one operand may be anything that its type holds."""
BIT_COUNTS = frozenset({"clz", "ffs", "popc"})
"""Functions of which the result is a number of bits: none to all of the operand's."""

__all__ = ["BINARY", "BIT_COUNTS", "BOUNDING", "CALLS", "DECIDE", "Interval"]
