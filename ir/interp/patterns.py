"""Bit patterns of floats in the exact domains, where a float is a number without a format.

A whole number that the type holds exactly, or an infinity, has the pattern that the machine gives it, so that what
programs do with patterns means what it does on the machine: the order of those of numbers that are not negative, the
sign, the exponent. Any other number has a keyed hash of it for a pattern (as functions have that a domain cannot
compute): equal numbers have equal ones, others unrelated ones.

Read as floats, patterns of anything but those numbers have no meaning: the small integers that inputs are made of would
be subnormal numbers in one half of a packed word and zeros in the other, which tell little apart.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..types import Scalar
from .keyed import keyed

WHOLE: dict[str, int] = {"f16": 1 << 11, "bf16": 1 << 8, "f32": 1 << 24, "f64": 1 << 53}
"""Whole numbers up to which a type holds all."""

MACHINE: dict[str, type] = {"f16": np.float16, "bf16": np.float32, "f32": np.float32, "f64": np.float64}
"""The numpy type whose patterns those of a type are; of bf16, their upper halves."""


def has_patterns(t: Scalar) -> bool:
    return t.name in WHOLE


def bits_of(number: np.ndarray, infinite: np.ndarray, word: np.ndarray, src: Scalar, dst: np.dtype) -> np.ndarray:
    """The patterns of exact numbers.

    Args:
        number: the numbers as signed integers; where ``infinite``, their sign counts alone.
        word: what tells numbers of the domain apart, for those that have no pattern of their own.
        src, dst: the float's type, and that of its pattern.
    """
    whole = np.abs(number) <= WHOLE[src.name]
    exact = np.where(infinite, np.copysign(np.inf, number), np.where(whole, number, 0))
    own = _machine_bits(exact.astype(np.float64), src)
    other = keyed(f"bits of {src.name}", word).astype(own.dtype)
    return np.where(whole | infinite, own, other).view(dst)


def _machine_bits(exact: np.ndarray, t: Scalar) -> np.ndarray:
    machine: np.ndarray = np.ascontiguousarray(exact.astype(MACHINE[t.name]))
    raw = machine.view(np.dtype(f"u{machine.dtype.itemsize}"))
    return (raw >> np.uint32(16)).astype(np.uint16) if t.name == "bf16" else raw


def floats_of(bits: np.ndarray, dst: Scalar) -> np.ndarray | None:
    """The numbers, as doubles, whose patterns ``bits`` are; None where some are of no such number."""
    raw = np.ascontiguousarray(bits).view(np.dtype(f"u{dst.bits // 8}"))
    if dst.name == "bf16":
        raw = raw.astype(np.uint32) << np.uint32(16)
    found = raw.view(MACHINE[dst.name]).astype(np.float64)
    with np.errstate(invalid="ignore"):
        known = np.isinf(found) | ((np.abs(found) <= WHOLE[dst.name]) & (found == np.trunc(found)))
    return found if known.all() else None


def reinterpreted(
    x: np.ndarray, src: Scalar, dst: Scalar, numbers: Callable, encode: Callable, dtype: np.dtype
) -> np.ndarray | None:
    """``x`` of type ``src`` as the ``dst`` of the same bits, stored as ``dtype``; None where there is no such meaning.

    Args:
        numbers: from storage to (number, infinite, word), as :func:`bits_of` takes them.
        encode: from doubles and a type to storage.
    """
    if not all(has_patterns(t) for t in (src, dst) if t.is_float):
        return None
    whole = np.asarray(x)
    shape, bits = whole.shape, whole.reshape(-1)
    if src.is_float:
        number, infinite, word = numbers(bits)
        bits = bits_of(number, infinite, word, src, _word(src))
    if not dst.is_float:
        return bits.view(dtype).reshape(shape)[()]
    found = floats_of(bits, dst)
    return None if found is None else np.asarray(encode(found, dst)).reshape(shape)[()]


def _word(t: Scalar) -> np.dtype:
    return np.dtype(f"u{t.bits // 8}")
