"""Bit patterns of floats in the exact domains, where a float is a number without a format.

A whole number that the type holds exactly, or an infinity, has the pattern that the machine gives it, so that what
programs do with patterns means what it does on the machine: the order of those of numbers that are not negative, the
sign, the exponent. Any other number has a keyed hash of it for a pattern (as functions have that a domain cannot
compute): equal numbers have equal ones, others unrelated ones.

Read as a float, the pattern of a whole number or an infinity is that again, and so is one that was given to a number
(:class:`Given`). Any other stands for a number of its own, a keyed hash of it, and is that number's: the small
integers that inputs are made of would be subnormal numbers in one half of a packed word and zeros in the other, which
tell little apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache

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


DRAWS = 4
"""How often another number is drawn for a pattern before it gets one that has a pattern of its own (all in a small
field are whole numbers that f64 holds)."""

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
        known, taken = self.patterns.setdefault(t.name, {}), self.numbers.setdefault(t.name, {})
        distinct, first, back = np.unique(words, return_index=True, return_inverse=True)
        apart = distinct.tolist()
        found = [*map(known.get, apart)]
        if None in found:
            wanted, meant = hashes[first], numbers[first].tolist()
            its_own = floats_of(wanted, t)[1].tolist()
            for place, bits in enumerate(wanted.tolist()):
                if found[place] is not None:
                    continue
                number: int | None = meant[place]
                if its_own[place] or bits in taken:
                    free = self._free(t, bits)
                    bits, number = (bits, None) if free is None else (free, number)
                taken[bits], known[apart[place]], found[place] = number, bits, bits
        return np.array(found, hashes.dtype)[back.reshape(-1)]

    def _free(self, t: Scalar, at: int) -> int | None:
        """A pattern that is no number's, by steps from ``at`` on; None where all that are tried are taken."""
        taken = self.numbers[t.name]
        return next((bits for bits in _tried(t, at) if bits not in taken), None)

    def drawn(self, t: Scalar, patterns: np.ndarray, words: np.ndarray, numbers: np.ndarray) -> None:
        """Patterns that were read as ``numbers`` nobody had: these have them from now on, unless they have others."""
        known, taken = self.patterns.setdefault(t.name, {}), self.numbers.setdefault(t.name, {})
        distinct, first = np.unique(patterns, return_index=True)
        for bits, word, number in zip(distinct.tolist(), words[first].tolist(), numbers[first].tolist(), strict=True):
            if bits not in taken and word not in known:
                taken[bits], known[word] = number, bits

    def read(self, t: Scalar, patterns: np.ndarray, others: np.ndarray) -> np.ndarray | None:
        """What ``patterns`` stand for, ``others`` where that is nothing yet; None where two numbers share one."""
        mine = self.numbers.get(t.name)
        if not mine:
            return others
        found = [*map(mine.get, patterns.tolist(), others.tolist())]
        return None if None in found else np.array(found, others.dtype)


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
        meant = given.read(dst, rest, _of_none(rest, dst, numbers, drawn).astype(out.dtype))
        if meant is None:
            return None
        given.drawn(dst, rest, numbers(meant)[2], meant)
        out[~known] = meant
    return out.reshape(shape)[()]


def _of_none(patterns: np.ndarray, t: Scalar, numbers: Callable, drawn: Callable) -> np.ndarray:
    """Numbers, in storage, for patterns of none: such as have no pattern of their own, where a domain has others."""
    found = drawn(keyed(f"{t.name} of bits", patterns))
    for again in range(DRAWS):
        number, infinite, _ = numbers(found)
        own = infinite | (np.abs(number) <= WHOLE[t.name])
        if not own.any():
            break
        found = np.where(own, drawn(keyed(f"{t.name} of bits {again}", patterns)), found)
    return found


def numbers_of(patterns: np.ndarray, t: Scalar) -> np.ndarray:
    """The numbers, as doubles, of which the machine's patterns in ``t`` are ``patterns``."""
    raw = np.asarray(patterns).view(word_type(t))
    if t.name == "bf16":
        raw = raw.astype(np.uint32) << np.uint32(16)
    with np.errstate(invalid="ignore"):
        return raw.view(MACHINE[t.name]).astype(np.float64)[()]


def patterns_of(numbers: np.ndarray, t: Scalar) -> np.ndarray | None:
    """The machine's patterns of doubles, as unsigned words; None where ``t`` does not hold one of them exactly."""
    whole = np.asarray(numbers, np.float64)
    with np.errstate(all="ignore"):
        found = _machine_bits(whole, t).reshape(whole.shape)
        back = numbers_of(found, t)
    return found[()] if np.all((back == whole) | (np.isnan(back) & np.isnan(whole))) else None


def _tried(t: Scalar, at: int) -> Iterable[int]:
    """The patterns that are tried, one after the other, for a number whose hash is ``at``."""
    if t.bits <= 16:
        own = _own_patterns(t)
        steps = ((at + k * STEP) % (1 << t.bits) for k in range(PROBES))
        return (bits for bits in steps if not own[bits])
    tried = (np.uint64(at) + np.uint64(STEP) * np.arange(PROBES, dtype=np.uint64)).astype(word_type(t))
    return tried[~floats_of(tried, t)[1]].tolist()


@cache
def _own_patterns(t: Scalar) -> bytes:
    """By pattern of a narrow type, whether it is one that a whole number or an infinity has of its own."""
    return floats_of(np.arange(1 << t.bits).astype(word_type(t)), t)[1].tobytes()


def word_type(t: Scalar) -> np.dtype:
    """Of the pattern of a ``t``."""
    return np.dtype(f"u{t.bits // 8}")
