"""Intervals of integers, with or without bounds; :mod:`.interval_operators` computes with them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ktc.ir.support.frozen import frozen
from ktc.ir.types import Scalar

End = int | float
"""A bound: an integer, or one of the two infinities."""


@frozen
class Interval:
    """The integers from ``low`` to ``high``, both included; None: there is no such bound."""

    low: int | None = None
    high: int | None = None

    @staticmethod
    def of_type(t: Scalar) -> Interval:
        """All values of an integer type, or of bool."""
        found = _OF_TYPE.get(t)
        if found is None:
            found = _OF_TYPE[t] = _of_type(t)
        return found

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
        low, high = other.low, other.high
        below = low is not None and (self.low is None or self.low < low)
        above = high is not None and (self.high is None or self.high > high)
        return not (below or above) or self.is_empty

    def fits(self, t: Scalar) -> bool:
        """Whether the type ``t`` holds all of it."""
        return self.within(Interval.of_type(t))

    def join(self, other: Interval) -> Interval:
        """The least interval that holds both."""
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        (a, b), (c, d) = ends(self), ends(other)
        return between(min(a, c), max(b, d))

    def meet(self, other: Interval) -> Interval:
        """What lies in both; :data:`EMPTY` where nothing does."""
        low, high = self.low, self.high
        if other.low is not None and (low is None or other.low > low):
            low = other.low
        if other.high is not None and (high is None or other.high < high):
            high = other.high
        if low is not None and high is not None and low > high:
            return EMPTY
        return self if low == self.low and high == self.high else Interval(low, high)

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


def _of_type(t: Scalar) -> Interval:
    if t.kind == "bool":
        return Interval(0, 1)
    return Interval(*t.extremes)


_OF_TYPE: dict[Scalar, Interval] = {}
"""What each type holds: asked for at every operator."""

EMPTY = Interval(1, 0)
ANY = Interval()
NATURAL = Interval(0, None)
TRUTH = Interval(0, 1)


def ends(i: Interval) -> tuple[End, End]:
    """The bounds, infinities where there are none."""
    return (-math.inf if i.low is None else i.low, math.inf if i.high is None else i.high)


def between(low: End, high: End) -> Interval:
    """The interval of these bounds."""
    return Interval(None if low == -math.inf else int(low), None if high == math.inf else int(high))


def hull(corners: Iterable[End]) -> Interval:
    """The least interval that holds all of ``corners``."""
    found = list(corners)
    return between(min(found), max(found))


def is_finite(x: End) -> bool:
    """Whether a bound is a number."""
    return isinstance(x, int)


__all__ = ["ANY", "EMPTY", "NATURAL", "TRUTH", "End", "Interval", "between", "ends", "hull", "is_finite"]
