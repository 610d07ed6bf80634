"""Powers of one base by table, and inverses of many numbers by one power: what the exact domains spend most time on.

A table holds ``base ** (digit << 8k)`` for every byte ``k`` of an exponent and every value of it, so that a power is a
product of as many entries as the exponent has bytes (Brickell, Gordon, McCurley and Wilson, EUROCRYPT '92).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ktc.ir.field_words import WHOLE
from ktc.ir.interp.execution.true_counts import count_true

BYTE = 256
WORD = 1 << 64


@cache
def _entries(base: int, byte: int, modulus: int) -> np.ndarray:
    """``base ** (digit << 8 * byte)`` for the 256 digits."""
    one = pow(base, 1 << 8 * byte, modulus)
    found = [1]
    for _ in range(BYTE - 1):
        found.append(found[-1] * one % modulus)
    return np.array(found, np.uint64)


def power_of(base: int, exponent: np.ndarray, modulus: int = WORD) -> np.ndarray:
    """``base ** exponent`` modulo 2^64 (wrapping), or modulo a number below 2^32; ``exponent``: uint64, any shape."""
    rest, byte = exponent, 0
    result = np.ones(rest.shape, np.uint64)
    while count_true(rest):
        entries = _entries(base, byte, modulus)[(rest & np.uint64(BYTE - 1)).view(np.int64)]
        result = entries if not byte else result * entries
        if byte and modulus != WORD:
            result = result % np.uint64(modulus)
        rest, byte = rest >> np.uint64(8), byte + 1
    return result


def inverses(numbers: np.ndarray, prime: int) -> np.ndarray:
    """The inverse of each of ``numbers`` (1-d, uint64, below ``prime`` < 2^32), and 0 of 0.

    Products of halves up to one number, whose inverse is divided among them on the way down: three products a number
    (Montgomery, *Math. Comp.* 48, 1987).
    """
    modulus = np.uint64(prime)
    zero = numbers == 0
    levels = [np.where(zero, np.uint64(1), numbers)]
    while len(levels[-1]) > 1:
        now = levels[-1]
        half = len(now) // 2
        pairs = now[:half] * now[half : 2 * half] % modulus
        levels.append(np.concatenate([pairs, now[2 * half :]]))
    found = np.array([pow(int(x), -1, prime) for x in levels[-1]], np.uint64)
    for now in reversed(levels[:-1]):
        half = len(now) // 2
        first, second = now[:half], now[half : 2 * half]
        of_pairs = found[:half]
        found = np.concatenate([of_pairs * second % modulus, of_pairs * first % modulus, found[half:]])
    return np.where(zero, np.uint64(0), found)


class KnownValues:
    """A function that has ``values`` at ``words`` (64 bits each), and elsewhere what it is given."""

    def __init__(self, words: Sequence[int], values: Sequence[int]) -> None:
        order = np.argsort(np.array(words, np.uint64))
        self.words, self.values = np.array(words, np.uint64)[order], np.array(values, np.uint64)[order]

    def __call__(self, x: np.ndarray, elsewhere: np.ndarray) -> np.ndarray:
        at = np.minimum(np.searchsorted(self.words, x), len(self.words) - 1)
        return np.where(self.words[at] == x, self.values[at], elsewhere)


def whole_power(base: Any, exponent: np.ndarray, one: Any, times: Callable[[Any, Any], Any]) -> Any:
    """``base`` to the power of ``exponent`` (int64, from 0 to :data:`WHOLE` - 1), by squaring."""
    result = one
    for bit in range(WHOLE.bit_length() - 1):
        result = np.where((exponent >> bit) & 1, times(result, base), result)
        base = times(base, base)
    return result


def scale_of(exponent: Any, half: int, modulus: int = WORD) -> np.ndarray:
    """Two to the power of ``exponent`` (integers of any sign), where ``half`` stands for 1/2."""
    e = np.asarray(exponent).astype(np.int64, copy=False)
    up, down = np.maximum(e, 0).view(np.uint64), np.maximum(-e, 0).view(np.uint64)
    scale = power_of(2, up, modulus) * power_of(half, down, modulus)  # one of the two is 1
    return scale if modulus == WORD else scale % np.uint64(modulus)


__all__ = ["KnownValues", "inverses", "power_of", "scale_of", "whole_power"]
