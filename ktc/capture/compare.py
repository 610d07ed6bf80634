"""Memory after a kernel ran again, against what the original left: to the bit, or within what rounding explains.

Bits first. Where they differ and the memory holds floats, g the original's element and h the new one agree if

    |h - g| <= (4 u + 64 v) (|g| + rms(g))

u: unit round-off of the element; v: that of the accumulation (float32, for doubles their own), NaN and infinities in
the same places: the rule of :mod:`ktc.search.verification.floats.agreement`, with room for sums in double too. That is
what another library's functions and another contraction of a * b + c may do to a sum. Anything else is a difference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ktc.ir.workload.input_data import numpy_dtype
from ktc.search.verification.floats.agreement import U_F32, UNIT_ROUNDOFF, misplaced_special, pieces, scale_of

FLOATS = frozenset({"f16", "bf16", "f32", "f64"})
"""Element types of the IR that may differ by rounding."""


@dataclass(frozen=True)
class Difference:
    """``elements`` of ``of`` differ; ``share`` is the largest error in units of what is allowed (``inf``: it is no
    matter of rounding), ``first`` the byte of the first difference. ``largest``: relative to |g| + rms(g)."""

    elements: int
    of: int
    first: int
    share: float
    largest: float = 0.0

    @property
    def within(self) -> bool:
        return self.share <= 1


def compare(want: np.ndarray, got: np.ndarray, element: str) -> Difference | None:
    """None if the bytes are equal. ``element``: the IR's name of the type that the memory holds; '' for unknown."""
    if np.array_equal(want, got):
        return None
    if element not in FLOATS:
        wrong = want != got
        return Difference(int(wrong.sum()), want.size, int(np.argmax(wrong)), float("inf"), float("inf"))
    dtype = numpy_dtype(element)
    whole = want.size // dtype.itemsize * dtype.itemsize
    if not np.array_equal(want[whole:], got[whole:]):
        return Difference(1, want.size // dtype.itemsize, whole, float("inf"), float("inf"))
    g, h = want[:whole].view(dtype), got[:whole].view(dtype)
    unit = UNIT_ROUNDOFF[dtype.name]
    allowed = 4 * unit + 64 * min(unit, U_F32)
    beside, bits = float(scale_of(g)), np.dtype(f"u{dtype.itemsize}")
    count, first, largest = 0, -1, 0.0
    for part in pieces(g.size):
        differs = g[part].view(bits) != h[part].view(bits)
        if not differs.any():
            continue
        count += int(differs.sum())
        first = (part.start + int(np.argmax(differs))) * dtype.itemsize if first < 0 else first
        x, y = g[part][differs].astype(np.float64), h[part][differs].astype(np.float64)
        largest = max(largest, _error(x, y, beside))
    return Difference(count, g.size, first, largest / allowed, largest)


def _error(g: np.ndarray, h: np.ndarray, beside: float) -> float:
    """The largest |h - g| / (|g| + beside); infinite where NaN and infinities are not in the same places."""
    special, misplaced = misplaced_special(g, h)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        error = np.where(special, 0, np.abs(h - g))
        share = np.where(error == 0, 0, error / (np.abs(np.where(special, 0, g)) + beside))
    return float(np.max(np.where(misplaced, np.inf, share), initial=0.0))
