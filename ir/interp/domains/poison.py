"""What memory and variables hold that nobody has written: anything. A run that reads some of it is repeated with other
values, and says that its results depend on them if they do.

Two values are told apart by what is computed of them, but not by every question: ``x < n`` has one answer for both if
both are large, or both below zero. So signed integers are zero, large and far below zero in turn; floats, of which the
last two say as much, are not tried again for the third.

Nor are two values told apart that a program takes from each other, where all are one: they differ from place to place,
by little and by even numbers.
"""

from __future__ import annotations

import numpy as np

from ktc.ir.types import Scalar

RUNS = 3
"""How many runs there are, if signed integers are read that nobody wrote; otherwise one less."""

INTEGERS = ((0, 145), (91, 199), (-91, -199))
"""By run, what they are; and in lanes whose neighbours have the first."""
FLOATS = ((37, 145), (-91, -199), (91, 199))

WILD = {32: 0x2545F492, 64: 0x2545F4914F6CDD1E}
"""By bits, what no subscript is: with 91 or 199 added odd, so that no product with a size makes it small."""

SPREAD = np.uint32(0x9E3779B1)
"""Odd, and as large a part of 2^32 as the golden ratio: neighbours are far apart."""


def poison(t: Scalar, run: int, beside: bool) -> int:
    """What a number of type ``t`` is in that run, as far as it fits; ``beside``: the other of the two values."""
    value = (FLOATS if t.is_float else INTEGERS)[run][beside]
    if t.is_float or run == 0:
        return value
    wild = WILD.get(t.bits, 0)
    return value + (wild if value > 0 else -wild)


def poisons(t: Scalar, run: int, beside: bool) -> np.ndarray:
    """What numbers of type ``t`` are in that run, as far as they fit, by :func:`kinds`. In the first run all are one:
    its results are compared with those of kernels that keep things elsewhere."""
    value = poison(t, run, beside)
    apart = 2 if poison(t, run, False) > 0 else -2
    return value + (np.zeros(1, np.int64) if run == 0 else apart * np.arange(16))


def kinds(places: np.ndarray) -> np.ndarray:
    """Which of sixteen kinds each of these places is."""
    return places.astype(np.uint32) * SPREAD >> np.uint32(28)


__all__ = ["RUNS", "kinds", "poison", "poisons"]
