"""Memory after a kernel ran again, against what the original left: to the bit, or within what rounding explains.

Bits first. Where they differ and the memory holds floats, g the original's element and h the new one agree if

    |h - g| <= (4 u + 64 v) (|g| + rms(g))

u: unit round-off of the element; v: that of the accumulation (float32, for doubles their own), NaN and infinities in
the same places: the rule of :mod:`ktc.search.verification.floats.agreement`, with room for sums in double too. That is
what another library's functions and another contraction of a * b + c may do to a sum. Anything else is a difference.

An original that is not repeatable (its atomics come in any order) brings its own yardstick: the contents that its other
runs left. Where they differ from each other, the new element may lie beyond the least and the largest of them by
:data:`BEYOND` times their width, or the width that is usual in this memory, and what rounding explains. Elements that
every run left alike have no such room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ktc.ir.workload.input_data import numpy_dtype
from ktc.search.verification.floats.agreement import U_F32, UNIT_ROUNDOFF, misplaced_special, pieces, scale_of

FLOATS = frozenset({"f16", "bf16", "f32", "f64"})
"""Element types of the IR that may differ by rounding."""


BEYOND = 2.0
"""Eight runs of a normally distributed sum span about 2.8 standard deviations: the same sum lies twice that beyond them
about once in 10^11."""


@dataclass(frozen=True)
class Difference:
    """``elements`` of ``of`` differ; ``share`` is the largest error in units of what is allowed (``inf``: it is no
    matter of rounding), ``first`` the byte of the first difference. ``largest``: relative to |g| + rms(g). ``spread``:
    the width of the original's own runs there, on the same scale (0: they do not differ, or there is one alone)."""

    elements: int
    of: int
    first: int
    share: float
    largest: float = 0.0
    spread: float = 0.0

    @property
    def within(self) -> bool:
        return self.share <= 1


def compare(want: np.ndarray, got: np.ndarray, element: str, others: Sequence[np.ndarray] = ()) -> Difference | None:
    """None if the bytes are equal to ``want``, or to one of ``others``: what other runs of the original left.

    ``element``: the IR's name of the type that the memory holds; '' for unknown.
    """
    if any(np.array_equal(run, got) for run in (want, *others)):
        return None
    if element not in FLOATS:
        wrong = want != got
        return Difference(int(wrong.sum()), want.size, int(np.argmax(wrong)), float("inf"), float("inf"))
    dtype = numpy_dtype(element)
    whole = want.size // dtype.itemsize * dtype.itemsize
    if not np.array_equal(want[whole:], got[whole:]):
        return Difference(1, want.size // dtype.itemsize, whole, float("inf"), float("inf"))
    g, h = want[:whole].view(dtype), got[:whole].view(dtype)
    runs = [g, *(run[:whole].view(dtype) for run in others)]
    unit = UNIT_ROUNDOFF[dtype.name]
    allowed = 4 * unit + 64 * min(unit, U_F32)
    beside, bits = float(scale_of(g)), np.dtype(f"u{dtype.itemsize}")
    usual = _usual_width(runs, beside)
    count, first, largest, share, spread = 0, -1, 0.0, 0.0, 0.0
    for part in pieces(g.size):
        differs = g[part].view(bits) != h[part].view(bits)
        if not differs.any():
            continue
        count += int(differs.sum())
        first = (part.start + int(np.argmax(differs))) * dtype.itemsize if first < 0 else first
        x, y = g[part][differs].astype(np.float64), h[part][differs].astype(np.float64)
        error = _error(x, y, beside)
        largest = max(largest, float(np.max(error, initial=0.0)))
        room = np.full(x.size, allowed)
        if usual:
            seen = np.stack([run[part][differs].astype(np.float64) for run in runs])
            width = _width(seen, beside)
            room += np.where(width > 0, BEYOND * np.maximum(width, usual), 0.0)
            error = np.where(width > 0, np.min([_error(run, y, beside) for run in seen], axis=0), error)
            spread = max(spread, float(np.max(width, initial=0.0)))
        share = max(share, float(np.max(error / room, initial=0.0)))
    return Difference(count, g.size, first, share, largest, spread)


def _usual_width(runs: Sequence[np.ndarray], beside: float) -> float:
    """The root mean square of :func:`_width` over the elements that the runs leave differently; 0 if there are none."""
    total, n = 0.0, 0
    for part in pieces(runs[0].size) if len(runs) > 1 else ():
        width = _width(np.stack([run[part].astype(np.float64) for run in runs]), beside)
        varies = width[width > 0]
        total, n = total + float(np.square(varies).sum()), n + varies.size
    return float(np.sqrt(total / n)) if n else 0.0


def _width(runs: np.ndarray, beside: float) -> np.ndarray:
    """What lies between the least and the largest of each element's runs (axis 0), relative to |first| + beside; 0
    where a NaN or an infinity is among them."""
    finite = np.isfinite(runs).all(axis=0)
    known = np.where(finite, runs, 0.0)
    scale = np.abs(known[0]) + beside
    apart = known.max(axis=0) - known.min(axis=0)
    return np.divide(apart, scale, out=np.zeros_like(apart), where=scale > 0)


def _error(g: np.ndarray, h: np.ndarray, beside: float) -> np.ndarray:
    """|h - g| / (|g| + beside) of each element; infinite where NaN and infinities are not in the same places."""
    special, misplaced = misplaced_special(g, h)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        error = np.where(special, 0, np.abs(h - g))
        share = np.where(error == 0, 0, error / (np.abs(np.where(special, 0, g)) + beside))
    return np.where(misplaced, np.inf, share)
