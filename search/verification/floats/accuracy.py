"""Accepting floating-point results: an a-priori bound per element, and no loss against the original.

With y the exact value (double), e the candidate's own running error bound (:mod:`ktc.ir.interp.domains.bound`, which
knows its accumulation depth and roundings) and h the result:

    |h - y| <= min(e, u |y| + 4 (o - u |y|)) + 1e-9 |y|      every element; NaN and infinities in the same places
    rms(h - y) <= 2 (1 + 4 / sqrt(n)) max(rms(g - y), u rms(y) / 2)      over a buffer of n elements

o is the original's bound in terms of A, the sum of its |terms| (:mod:`ktc.ir.interp.domains.terms`), g its result, u
the output's round-off. A narrowed accumulator comes with its own, looser, bound e: the original's stands against it,
whose last rounding is counted once and what came before it four times. Partial sums would not do for o: where terms
cancel, those of another order are larger by any factor.

The second rule sees losses that no single element shows. Both sides of it are samples of chance, and of as few values
as one where the elements of a buffer share an error (a row's scale): whoever asks it accepts a loss only if it shows in
each of :data:`DRAWS` independent inputs. Two equally accurate programs, all of whose errors are one draw of a normal
distribution, exceed 2.2 with probability 1 - 2 / pi arctan 2.2 = 0.27, six times in a row with 4e-4.

Passes flagged ``fast_math`` are exempt from both but for e, for they trade accuracy knowingly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ktc.ir.interp.domains.rounding import FLOAT_DTYPES, SMALLEST, UNIT_ROUNDOFF

LOSS = 2.0
"""How much larger the candidate's RMS error may be than the original's, over many elements."""

LUCK = 4.0
"""Over few: the ratio of two RMS errors of n elements scatters like 1 / sqrt(n)."""

GROWTH = 4.0
"""How much looser than the original's the bound before the last rounding may be: a longer chain of sums."""

DRAWS = 6
"""Inputs in all of which a loss must show."""

_NAMES = {dtype: name for name, dtype in FLOAT_DTYPES.items()}


@dataclass(frozen=True)
class Excess:
    """The worst element of a buffer that fails, or (``index`` empty) a loss of RMS accuracy."""

    index: tuple[int, ...]
    expected: float
    got: float
    error: float
    allowed: float

    def __str__(self) -> str:
        if not self.index:
            return f"RMS error {self.error:.3g}, allowed {self.allowed:.3g}: less accurate than the original"
        return f"{self.got:.9g}, expected {self.expected:.9g}: error {self.error:.3g}, bound {self.allowed:.3g}"


def outside_bound(got: np.ndarray, exact: np.ndarray, bound: np.ndarray) -> Excess | None:
    """The element of ``got`` that exceeds its bound the most. Arrays of one shape, ``exact`` and ``bound`` double."""
    ratio, error, allowed = _shares(got, exact, bound)
    if not ratio.size or not ratio.max() > 1:
        return None
    at = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    shown = float("inf") if np.isinf(ratio[at]) else float(error[at])
    return Excess(tuple(int(i) for i in at), float(exact[at]), float(got[at]), shown, float(allowed[at]))


def beyond(got: np.ndarray, exact: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(which elements of ``got`` exceed their bound, what it allows them); integers have to be equal, and numbers
    are no infinities."""
    if not is_float(got.dtype):
        return got.astype(np.float64) != exact, np.zeros(got.shape)
    ratio, _, allowed = _shares(got, exact, bound)
    return (ratio > 1) | (np.isinf(exact) & np.isfinite(got.astype(np.float64))), allowed


def worst_ratio(got: np.ndarray, exact: np.ndarray, bound: np.ndarray) -> float:
    """The largest share of its bound that an element's error takes: observed over allowed."""
    ratio = _shares(got, exact, bound)[0]
    return float(ratio.max()) if ratio.size else 0.0


def _shares(got: np.ndarray, exact: np.ndarray, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(error / allowed, error, allowed) of every element; infinite where a NaN or an infinity is out of place."""
    h, y = got.astype(np.float64), exact.astype(np.float64)
    overflow = np.abs(y) + bound >= _largest(got.dtype)  # the device may round to infinity here
    special = ~np.isfinite(y) | ~np.isfinite(h)
    wrong_special = special & ~overflow & ~((np.isnan(y) & np.isnan(h)) | (y == h))
    with np.errstate(invalid="ignore"):
        error = np.where(special, 0.0, np.abs(h - y))
    allowed = bound + 1e-9 * np.abs(np.where(np.isfinite(y), y, 0.0))
    with np.errstate(invalid="ignore"):
        share = np.where(np.isinf(allowed), 0.0, error / np.maximum(allowed, np.finfo(np.float64).tiny))
    return np.where(wrong_special, np.inf, share), error, allowed


def no_looser(bound: np.ndarray, original: np.ndarray, exact: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The candidate's error bound, as far as it is not looser than the original's (of its terms) allows. Arrays of one
    shape."""
    last = unit_roundoff(dtype) * np.abs(np.where(np.isfinite(exact), exact, 0.0))
    before = np.maximum(original - last, 0.0)
    return np.where(np.isfinite(original), np.minimum(bound, last + GROWTH * before), bound)


def lost_accuracy(got: np.ndarray, original: np.ndarray, exact: np.ndarray) -> Excess | None:
    """Whether ``got`` is, over the whole buffer, clearly less accurate than ``original``, on these inputs."""
    h, g, y = (x.astype(np.float64) for x in (got, original, exact))
    fine = np.isfinite(h) & np.isfinite(g) & np.isfinite(y)
    if not fine.any():
        return None
    u = unit_roundoff(got.dtype)
    ours, theirs = _rms(h[fine] - y[fine]), _rms(g[fine] - y[fine])
    allowed = LOSS * (1 + LUCK / int(fine.sum()) ** 0.5) * max(theirs, u * _rms(y[fine]) / 2)
    return Excess((), theirs, ours, ours, allowed) if ours > allowed else None


def unit_roundoff(dtype: np.dtype) -> float:
    """Half the distance from 1 to the next larger number of a float type."""
    return UNIT_ROUNDOFF[_NAMES[np.dtype(dtype)]]


def smallest(dtype: np.dtype) -> float:
    """``SMALLEST`` of a numpy (or ml_dtypes) float type."""
    return SMALLEST[_NAMES[np.dtype(dtype)]]


def is_float(dtype: np.dtype) -> bool:
    """Whether a numpy (or ml_dtypes) dtype is one of the IR's float types."""
    return np.dtype(dtype) in _NAMES


def _largest(dtype: np.dtype) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(np.dtype(dtype)).max)


def _rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(x)))) if x.size else 0.0
