"""Bit patterns of floats in the exact domains, where a float is a number without a format.

A whole number that the type holds exactly, or an infinity, has the pattern that the machine gives it, so that what
programs do with patterns means what it does on the machine: the order of those of numbers that are not negative, the
sign, the exponent. Any other number has a keyed hash of it for a pattern (as functions have that a domain cannot
compute): equal numbers have equal ones, others unrelated ones.

Read as a float, the pattern of a whole number or an infinity is that again, and so is one that was given to a number
(:class:`Given`). Any other stands for a number of its own, a keyed hash of it: the small integers that inputs are made
of would be subnormal numbers in one half of a packed word and zeros in the other, which tell little apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from ktc.ir.types import Scalar

from .keyed_hashes import keyed

WHOLE: dict[str, int] = {"f16": 1 << 11, "bf16": 1 << 8, "f32": 1 << 24, "f64": 1 << 53, "e4m3": 1 << 4, "e5m2": 1 << 3}
"""Whole numbers up to which a type holds all."""

MACHINE: dict[str, type] = {
    "f16": np.float16, "bf16": np.float32, "f32": np.float32, "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
"""The numpy type whose patterns those of a type are; of bf16, their upper halves."""


PROBES, STEP = 64, 0x9E3779B97F4A7C15
"""Patterns that are tried for a number before it has to share one, and how far apart: odd, so that all are in reach,
and spread over all of a type (as the golden ratio spreads them), since those of whole numbers lie next to each other,
half of them in one piece (from 2^23 to 2^24 of f32)."""


@dataclass
class Given:
    """The patterns that numbers without one of their own were given in a run, by type: read back, they are those.

    Numbers (in a domain's storage) have patterns of their own as long as there are free ones.
    """

    numbers: dict[str, dict[int, int | None]] = field(default_factory=dict)
    """By pattern; None: of more than one number."""

    patterns: dict[str, dict[int, int]] = field(default_factory=dict)
    """By what tells numbers apart."""

    def named(self, t: Scalar, hashes: np.ndarray, words: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """The patterns of ``numbers``, which ``words`` tell apart, from now on: their ``hashes``, if these are free."""
        known = self.patterns.setdefault(t.name, {})
        distinct, first, back = np.unique(words, return_index=True, return_inverse=True)
        for word, at, number in zip(distinct.tolist(), hashes[first], numbers[first].tolist()):
            if word not in known:
                known[word] = self._free(t, at, number)
        return np.array([known[w] for w in distinct.tolist()], hashes.dtype)[back.reshape(-1)]

    def _free(self, t: Scalar, at: np.integer, number: int) -> int:
        taken = self.numbers.setdefault(t.name, {})
        tried = (at.astype(np.uint64) + np.uint64(STEP) * np.arange(PROBES, dtype=np.uint64)).astype(word_type(t))
        for bits in tried[~floats_of(tried, t)[1]].tolist():
            if bits not in taken:
                taken[bits] = number
                return bits
        taken[int(at)] = None
        return int(at)

    def read(self, t: Scalar, patterns: np.ndarray, others: np.ndarray) -> np.ndarray | None:
        """What ``patterns`` stand for, ``others`` where that is nothing yet; None where two numbers share one."""
        mine = self.numbers.get(t.name)
        if not mine:
            return others
        found = [mine.get(bits, other) for bits, other in zip(patterns.tolist(), others.tolist())]
        return None if any(number is None for number in found) else np.array(found, others.dtype)


def has_patterns(t: Scalar) -> bool:
    return t.name in WHOLE


def bits_of(number: np.ndarray, infinite: np.ndarray, word: np.ndarray, src: Scalar) -> tuple[np.ndarray, np.ndarray]:
    """The patterns of exact numbers, and which of them are their own.

    Args:
        number: the numbers as signed integers; where ``infinite``, their sign counts alone.
        word: what tells numbers of the domain apart, for those that have no pattern of their own.
        src: the float's type.
    """
    whole = np.abs(number) <= WHOLE[src.name]
    exact = np.where(infinite, np.copysign(np.inf, number), np.where(whole, number, 0))
    own = _machine_bits(exact.astype(np.float64), src)
    other = keyed(f"bits of {src.name}", word).astype(own.dtype)
    return np.where(whole | infinite, own, other), whole | infinite


def _machine_bits(exact: np.ndarray, t: Scalar) -> np.ndarray:
    machine: np.ndarray = np.ascontiguousarray(exact.astype(MACHINE[t.name]))
    raw = machine.view(np.dtype(f"u{machine.dtype.itemsize}"))
    return (raw >> np.uint32(16)).astype(np.uint16) if t.name == "bf16" else raw


def floats_of(bits: np.ndarray, dst: Scalar) -> tuple[np.ndarray, np.ndarray]:
    """The numbers, as doubles, whose own patterns ``bits`` are, and which are such (others are 0)."""
    raw = bits
    if dst.name == "bf16":
        raw = raw.astype(np.uint32) << np.uint32(16)
    with np.errstate(invalid="ignore"):
        found = raw.view(MACHINE[dst.name]).astype(np.float64)
        known = np.isinf(found) | ((np.abs(found) <= WHOLE[dst.name]) & (found == np.trunc(found)))
    return np.where(known, found, 0.0), known


def reinterpreted(
    x: np.ndarray,
    src: Scalar,
    dst: Scalar,
    numbers: Callable,
    encode: Callable,
    dtype: np.dtype,
    given: Given,
    drawn: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray | None:
    """``x`` of type ``src`` as the ``dst`` of the same bits, stored as ``dtype``; None where there is no such meaning.

    Args:
        numbers: from storage to (number, infinite, word), as :func:`bits_of` takes them.
        encode: from doubles and a type to storage.
        given: the patterns of this run.
        drawn: from 64-bit hashes to numbers in storage.
    """
    if not all(has_patterns(t) for t in (src, dst) if t.is_float):
        return None
    whole = np.asarray(x)
    shape, bits = whole.shape, np.ascontiguousarray(whole.reshape(-1))
    if src.is_float:
        values = bits
        number, infinite, word = numbers(values)
        bits, own = bits_of(number, infinite, word, src)
        if not own.all():
            bits = np.array(bits)
            bits[~own] = given.named(src, bits[~own], word[~own], values[~own])
    if not dst.is_float:
        return bits.view(dtype).reshape(shape)[()]
    bits = bits.view(word_type(dst))
    found, known = floats_of(bits, dst)
    out = np.asarray(encode(found, dst))
    if not known.all():
        rest = bits[~known]
        meant = given.read(dst, rest, drawn(keyed(f"{dst.name} of bits", rest)).astype(out.dtype))
        if meant is None:
            return None
        out[~known] = meant
    return out.reshape(shape)[()]


def word_type(t: Scalar) -> np.dtype:
    """Of the pattern of a ``t``."""
    return np.dtype(f"u{t.bits // 8}")
