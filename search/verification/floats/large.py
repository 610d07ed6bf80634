"""How far a device's results may be off at sizes that the interpreter cannot follow.

Against the workload's float64 reference: no element may be more than 4 times as far off as the original's worst,
relative to |y| + rms(y). Without a reference, or beyond what is worth computing one for, the original's result g stands
in: |h - g| <= (4 u + 256 u_f32) (|g| + rms(g)), u the output's round-off, and 6 sqrt(n) u_f32 where an element is the
sum of so many terms n that this is more. That leaves room for another order of summation and none for a term too many
or too few. Where an output has too few elements for their rms to mean anything,
their spreads stand in for it (:mod:`.moments`).
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ktc.ir.interp.domains.rounding import UNIT_ROUNDOFF
from ktc.ir.interp.domains.terms import PROBABLE

from .accuracy import Excess, outside_bound, unit_roundoff
from .agreement import pieces, scale_of

WORSE = 4.0


def too_far(
    got: np.ndarray,
    want: np.ndarray,
    exact: np.ndarray | None = None,
    spread: np.ndarray | None = None,
    terms: float = 0.0,
) -> Excess | None:
    """The element of ``got`` that is too far off, held against ``exact`` (float64) or, without it, the original's
    result ``want``. All of one shape. ``terms``: that an element is the sum of."""
    if exact is None:
        return _outside_blind(got, want, spread, terms)
    return outside_bound(got, exact, _relative_bound(want, exact, spread))


def _relative_bound(want: np.ndarray, y: np.ndarray, spread: np.ndarray | None = None) -> np.ndarray:
    """``WORSE`` times the original's worst relative error (at least one rounding), in units of |y| + rms(y).

    Few elements may be right by luck: with their ``spread``, at least what is allowed without a reference.
    """
    finite = np.isfinite(y)
    clean = np.where(finite, y, 0.0)
    scale = np.abs(clean) + scale_of(clean, spread)
    with np.errstate(invalid="ignore", divide="ignore"):
        worst = np.where(finite & (scale > 0), np.abs(want.astype(np.float64) - y) / scale, 0.0)
    largest = float(np.max(worst[np.isfinite(worst)], initial=0.0))
    least = 0.0 if spread is None else _another_order(want.dtype)
    return np.maximum(WORSE * max(largest, unit_roundoff(want.dtype)), least) * scale


def _another_order(dtype: np.dtype, terms: float = 0.0) -> float:
    """The relative error that another order of summation may cause."""
    return WORSE * unit_roundoff(dtype) + max(256, PROBABLE * terms**0.5) * UNIT_ROUNDOFF["f32"]


def _outside_blind(got: np.ndarray, want: np.ndarray, spread: np.ndarray | None, terms: float) -> Excess | None:
    """The first element too far from the original's own result; in pieces, for these arrays are large."""
    flat, g = got.reshape(-1), want.reshape(-1)
    beside, unit = scale_of(g, spread), _another_order(want.dtype, terms)
    for p in pieces(g.size):
        bad = outside_bound(flat[p], g[p].astype(np.float64), unit * (np.abs(_finite(g[p])) + beside))
        if bad:
            at = np.unravel_index(p.start + bad.index[0], want.shape)
            return dataclasses.replace(bad, index=tuple(int(i) for i in at))
    return None


def _finite(x: np.ndarray) -> np.ndarray:
    y = x.astype(np.float64)
    return np.where(np.isfinite(y), y, 0.0)
