"""Whether two programs' outputs agree at production size: the last look at what was really timed.

The exact checks run on small, awkward sizes. Here two device results meet, both within their own rounding, so that

    |h - g| <= (4 u_out + 64 u_f32) (|g| + rms(g))        u: unit round-off of the output, of float32 accumulation

per element, NaN and infinities in the same places, integers to the bit. A misplaced, missing or doubled element of
ordinary data exceeds this by orders of magnitude; rounding in another order does not come near.

rms(g) stands for what rounding errors are relative to where terms cancel. The few elements of a sum to a scalar say
nothing of it: there their *spread* does, the root of the sum of the squares of their terms (``verification/moments``).

Long sums err by more: h terms one after another, or in whatever order atomics come, are allowed 6 sqrt(h) u_f32 where
that is more than 64 u_f32 (``ktc.ir.interp.domains.terms`` has the source of the formula).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from ktc.ir.interp.domains.terms import PROBABLE

CHUNK = 1 << 20
"""Elements compared at a time, so that a gigabyte of output needs no gigabytes of temporaries; cores share them."""

U_F32 = 2.0**-24
UNIT_ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float8_e4m3fn": 2.0**-4, "float8_e5m2": 2.0**-3,
                 "float32": U_F32, "float64": 2.0**-53}  # fmt: skip

MOST_THREADS = 8

Result = TypeVar("Result")

FEW_ELEMENTS = 64
"""Fewer elements than this are no sample of how widely they spread."""


def disagreement(
    name: str, want: np.ndarray, got: np.ndarray, spread: np.ndarray | None = None, terms: float = 0.0
) -> str:
    """'' if ``got`` agrees with ``want``, else the worst element and by how much it is off.

    ``spread``: of each element, of its shape; it counts for an output of few elements. ``terms``: that an element is
    the sum of.
    """
    a, b = want.reshape(-1), got.reshape(-1)
    if a.dtype.name not in UNIT_ROUNDOFF:
        return _first_difference(name, want, a != b)
    scale = scale_of(a, spread)
    allowed = 4 * UNIT_ROUNDOFF[a.dtype.name] + (
        max(64, PROBABLE * terms**0.5) * U_F32 if a.dtype.name != "float64" else 0
    )
    bits = f"u{a.dtype.itemsize}"

    def apart(part: slice) -> str:
        if np.array_equal(a[part].view(bits), b[part].view(bits)):
            return ""
        g, h = a[part].astype(np.float64), b[part].astype(np.float64)
        if _surely_near(g, h, allowed, scale):
            return ""
        special, misplaced = misplaced_special(g, h)
        with np.errstate(invalid="ignore"):
            bad = np.where(special, misplaced, np.abs(h - g) > allowed * (np.abs(g) + scale))
        if not bad.any():
            return ""
        at = int(np.argmax(bad))
        place = [int(i) for i in np.unravel_index(part.start + at, want.shape)]
        return f"{name}{place} is {h[at]:.9g}, the original has {g[at]:.9g}"

    return next(filter(None, _shared_out(apart, a.size)), "")


def _surely_near(g: np.ndarray, h: np.ndarray, allowed: float, scale: Any) -> bool:
    """Whether all of ``h`` is within the bound of ``g``, and all of that finite: what nearly all pieces are."""
    limit = np.abs(g)
    limit += scale
    limit *= allowed
    if not np.isfinite(limit.max(initial=0.0)):
        return False
    with np.errstate(invalid="ignore"):
        apart = h - g
    np.abs(apart, out=apart)
    return bool((apart <= limit).all())


def pieces(size: int) -> Iterator[slice]:
    """The ranges of ``CHUNK`` elements that make up ``size``; the last may reach beyond it."""
    return (slice(start, start + CHUNK) for start in range(0, size, CHUNK))


def _shared_out(work: Callable[[slice], Result], size: int) -> list[Result]:
    """What ``work`` gives for each piece, in their order. The cores share them: numpy's loops hold no lock."""
    if size <= CHUNK:
        return [work(part) for part in pieces(size)]
    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as pool:
        return list(pool.map(work, pieces(size)))


def misplaced_special(g: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(where either is NaN or infinite, where they are so unlike each other), of two float64 arrays of one shape."""
    special = ~np.isfinite(g) | ~np.isfinite(h)
    return special, special & (g != h) & ~(np.isnan(g) & np.isnan(h))


def scale_of(values: np.ndarray, spread: np.ndarray | None = None) -> Any:
    """What errors of ``values`` are relative to beside themselves: their rms; of few, their own spreads if larger."""
    rms = _rms(values.reshape(-1))
    return rms if spread is None or values.size >= FEW_ELEMENTS else np.maximum(rms, spread.reshape(values.shape))


def _first_difference(name: str, want: np.ndarray, differs: np.ndarray) -> str:
    if not differs.any():
        return ""
    return f"{name}{[int(i) for i in np.unravel_index(int(np.argmax(differs)), want.shape)]} differs from the original"


def _rms(a: np.ndarray) -> float:
    """Root mean square of the finite elements."""

    def squares(part: slice) -> tuple[float, int]:
        x = a[part].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            squared = float(np.dot(x, x))
        if not np.isfinite(squared):
            x = x[np.isfinite(x)]
            squared = float(np.dot(x, x))
        return squared, x.size

    found = _shared_out(squares, a.size)
    total, count = sum(squared for squared, _ in found), sum(n for _, n in found)
    return (total / count) ** 0.5 if count else 0.0
