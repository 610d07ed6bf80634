"""What a number in a kernel is, as a formula over the sizes that the kernel was made for.

``98304`` is ``96 * length`` in a kernel for a length of 1024, if the same place has ``196608`` in the kernel for 2048.
The formulas are products of powers of sizes with a factor, one more or less at most; a quotient rounded up or down (the
blocks that tiles of one size take); the logarithm of one (a shift); and for floats its reciprocal and roots.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from .template import Number

POWERS = (0, 1, -1, 2, -2, 3)
MOST_POWERS = 4
"""Of all sizes in one product."""

TERMS = 64
"""The largest numerator and denominator of a fraction that is no part."""

OFFSETS = (-1, 1)

FLOATS = {
    "plain": lambda m: np.float32(m),
    "reciprocal": lambda m: np.float32(1) / np.float32(m),
    "root": lambda m: np.sqrt(np.float32(m)),
    "reciprocal root": lambda m: np.float32(1) / np.sqrt(np.float32(m)),
}

ROUNDED = {"up": math.ceil, "down": math.floor}


@dataclass(frozen=True)
class Formula:
    """``factor * size0**powers[0] * ... + offset``, as a whole number, rounded (:data:`ROUNDED`), as a logarithm, or in
    one of the forms of :data:`FLOATS`."""

    powers: tuple[int, ...]
    factor: Fraction
    offset: int = 0
    form: str = "whole"

    def at(self, sizes: Sequence[int]) -> Number | None:
        """The number for these sizes; None if there is none, for it would not be whole, or not positive."""
        value = self.factor * product(sizes, self.powers) + self.offset
        if self.form in FLOATS:
            return float(FLOATS[self.form](float(value)))
        if self.form in ROUNDED:
            return ROUNDED[self.form](value)
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


def formula(
    values: Sequence[Number], sizes: Sequence[Sequence[int]], tiles: Collection[int] = ()
) -> Formula | Itself | None:
    """The simplest formula that gives ``values`` at ``sizes``, one after the other; None if there is none.

    ``tiles``: what may be divided by, with the result rounded.
    """
    if len(set(values)) == 1:
        return Itself(values[0])
    for f in _candidates(values[0], sizes[0], tiles):
        if all(f.at(s) == v for v, s in zip(values, sizes, strict=True)):
            return f
    return None


def _candidates(value: Number, sizes: Sequence[int], tiles: Collection[int]) -> Iterator[Formula]:
    """Formulas that may give ``value`` at ``sizes``: products, then quotients rounded, then what is beside a product;
    the simplest first."""
    products = [(powers, product(sizes, powers)) for powers in _products(len(sizes))]
    if isinstance(value, float):
        yield from (Formula(powers, Fraction(1), form=form) for powers, _ in products for form in FLOATS)
        return
    plain = [Formula(powers, value / base) for powers, base in products]
    yield from filter(_is_likely, plain)
    for (powers, base), tile in itertools.product(products, sorted(tiles)):
        yield from (Formula(powers, Fraction(1, tile), form=f) for f, r in ROUNDED.items() if r(base / tile) == value)
    for powers, base in products:
        yield from (Formula(powers, (value - offset) / base, offset) for offset in OFFSETS)
        if 0 <= value < 64:
            yield Formula(powers, Fraction(1 << value) / base, form="logarithm")
    yield from (f for f in plain if not _is_likely(f))


def _is_likely(f: Formula) -> bool:
    """Whether a factor is one that a program has: a whole number, a part, or a fraction of small numbers."""
    return min(f.factor.numerator, f.factor.denominator) == 1 or max(f.factor.numerator, f.factor.denominator) <= TERMS


def _products(n: int) -> list[tuple[int, ...]]:
    """Powers of ``n`` sizes, the simplest first."""
    every = itertools.product(POWERS, repeat=n)
    return sorted((p for p in every if 0 < sum(map(abs, p)) <= MOST_POWERS), key=lambda p: sum(map(abs, p)))


__all__ = ["Formula", "Itself", "formula", "product"]
