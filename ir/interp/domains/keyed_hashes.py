"""Keyed hashes: a function the exact domains cannot compute becomes a fixed random function of its exact argument.

Equal arguments give equal results, different ones give unrelated results, so a wrong argument cannot hide.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ktc.ir.field_words import seed_of
from ktc.ir.interp.execution.true_counts import all_true


def mix(x):
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014): a bijection of 64-bit words that scatters bits."""
    x = np.asarray(x).astype(np.uint64, copy=False)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def keyed(name: str, *args) -> np.ndarray:
    """A 64-bit hash of the function's name and its arguments, element by element."""
    return hashed(np.uint64(seed_of(name)), *args)


def hashed(seed, *args) -> np.ndarray:
    """A 64-bit hash of the arguments, one after another."""
    h: Any = seed
    with np.errstate(over="ignore"):
        for a in args:
            h = mix(np.asarray(a).astype(np.uint64) + h * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1))
    return h


def dyadic(value: float) -> tuple[int, int]:
    """A finite float as ``(m, k)`` with value = m * 2**k and m odd (or 0)."""
    m, d = value.as_integer_ratio()
    k = -(d.bit_length() - 1)
    while m and m % 2 == 0:
        m //= 2
        k += 1
    return m, k


LARGE = 1 << 62
"""Integers from here on are taken for numbers like any other."""


def whole_numbers(array: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The numbers as doubles, as new 64-bit integers, and whether each is one (the integer is 0 where it is not)."""
    values = np.asarray(array).astype(np.float64, copy=False)
    with np.errstate(invalid="ignore"):
        words = values.astype(np.int64)
    whole = words.astype(np.float64) == values  # of one type: half the time
    if all_true(whole) and (not whole.size or (words.min() > -LARGE and words.max() < LARGE)):
        return values, words, whole
    whole &= np.abs(values) < LARGE
    return values, np.where(whole, words, 0), whole


HUGE = 1e30
"""Literals at least this large (FLT_MAX, 1e38f) stand for infinity in the exact domains: identities of max and min."""
