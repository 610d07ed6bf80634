"""What a number in a kernel is, as a formula over the sizes that the kernel was made for.

``98304`` is ``96 * length`` in a kernel for a length of 1024, if the same place has ``196608`` in the kernel for 2048.
The formulas are products of powers of sizes with a factor, one more or less at most; the logarithm of one (a shift);
and for floats its reciprocal and roots.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from .template import Number

POWERS = (0, 1, -1, 2, -2, 3)
MOST_POWERS = 4
"""Of all sizes in one product."""

OFFSETS = (0, -1, 1)

FLOATS = {
    "plain": lambda m: np.float32(m),
    "reciprocal": lambda m: np.float32(1) / np.float32(m),
    "root": lambda m: np.sqrt(np.float32(m)),
    "reciprocal root": lambda m: np.float32(1) / np.sqrt(np.float32(m)),
}


@dataclass(frozen=True)
class Formula:
    """``factor * size0**powers[0] * ... + offset``, as a whole number, a logarithm, or in one of the forms of
    :data:`FLOATS`."""

    powers: tuple[int, ...]
    factor: Fraction
    offset: int = 0
    form: str = "whole"

    def at(self, sizes: Sequence[int]) -> Number | None:
        """The number for these sizes; None if there is none, for it would not be whole, or not positive."""
        value = self.factor * product(sizes, self.powers) + self.offset
        if self.form in FLOATS:
            return float(FLOATS[self.form](float(value)))
        if value.denominator != 1 or value < (self.offset >= 0):
            return None
        whole = value.numerator
        if self.form == "whole":
            return whole
        return whole.bit_length() - 1 if whole & (whole - 1) == 0 else None


@dataclass(frozen=True)
class Itself:
    """A number that is the same for all sizes."""

    number: Number

    def at(self, sizes: Sequence[int]) -> Number:
        return self.number


def product(sizes: Sequence[int], powers: Sequence[int]) -> Fraction:
    value = Fraction(1)
    for n, p in zip(sizes, powers, strict=True):
        value *= Fraction(n) ** p
    return value


def formula(values: Sequence[Number], sizes: Sequence[Sequence[int]]) -> Formula | Itself | None:
    """The simplest formula that gives ``values`` at ``sizes``, one after the other; None if there is none."""
    if len(set(values)) == 1:
        return Itself(values[0])
    for f in _candidates(values[0], sizes[0]):
        if all(f.at(s) == v for v, s in zip(values, sizes, strict=True)):
            return f
    return None


def _candidates(value: Number, sizes: Sequence[int]) -> Iterator[Formula]:
    """Formulas that may give ``value`` at ``sizes``, the simplest first."""
    for powers in _products(len(sizes)):
        base = product(sizes, powers)
        if isinstance(value, float):
            yield from (Formula(powers, Fraction(1), form=form) for form in FLOATS)
            continue
        for offset in OFFSETS:
            yield Formula(powers, (value - offset) / base, offset)
        if 0 <= value < 64:
            yield Formula(powers, Fraction(1 << value) / base, form="logarithm")


def _products(n: int) -> list[tuple[int, ...]]:
    """Powers of ``n`` sizes, the simplest first."""
    every = itertools.product(POWERS, repeat=n)
    return sorted((p for p in every if 0 < sum(map(abs, p)) <= MOST_POWERS), key=lambda p: sum(map(abs, p)))


__all__ = ["Formula", "Itself", "formula", "product"]
