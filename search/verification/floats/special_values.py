"""Rows of input with values that arithmetic treats in its own way: which values, where in a row, and in which rows.

What a kernel does with them is decided by comparisons and by the order of its operations: a row that begins with minus
infinity, one NaN among numbers, a row of nothing but subnormals. Every second row stays ordinary, for one NaN hides all
that it meets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from ml_dtypes import finfo

from .any_answer import Answers, lost

VALUES: dict[str, Callable[[np.dtype], float]] = {
    "-inf": lambda dtype: -np.inf,
    "inf": lambda dtype: np.inf,
    "nan": lambda dtype: np.nan,
    "-0": lambda dtype: -0.0,
    "subnormal": lambda dtype: 3 * float(finfo(dtype).smallest_subnormal),
    "largest": lambda dtype: float(finfo(dtype).max),
}
"""Special values by the names that a workload excludes them by: of a float type."""

TURNS = (
    ("leading", "-inf"), ("single", "nan"), ("all", "-inf"), ("single", "inf"), ("leading", "nan"),
    ("single", "largest"), ("all", "subnormal"), ("leading", "-0"), ("single", "-inf"), ("all", "-0"),
    ("leading", "inf"), ("leading", "largest"), ("single", "subnormal"), ("all", "nan"), ("all", "inf"),
    ("leading", "subnormal"), ("all", "largest"),
)  # fmt: skip
"""Where in a row, and which value: one after the other, the most telling ones first."""


ENDING = ("inf", "-inf", "nan")
"""What a last row holds: the first of these that may come. What multiplies it by 0 where the original stops is seen."""


@dataclass(frozen=True)
class SpecialRows:
    """A kind of input data: ``kinds`` of special values in rows of the float inputs, or of the input ``only`` alone,
    beginning with the turn ``phase`` of :data:`TURNS`. ``cut``: an array that is one row is cut into short ones: all
    kinds come to it. ``last``: the last row alone is special, all of it: sums down the columns meet one special value.
    """

    kinds: tuple[str, ...]
    phase: int = 0
    only: str = ""
    cut: bool = False
    last: bool = False

    def turns(self) -> list[tuple[str, str]]:
        return [t for t in TURNS if t[1] in self.kinds]

    def put(self, x: np.ndarray, dtype: np.dtype, shift: int) -> np.ndarray:
        """``x`` (double, of any shape, to become ``dtype``) with special values in every second row; ``shift`` is the
        argument's own, so that those of two arguments do not always meet."""
        rows = (x.reshape(-1, x.shape[-1]) if x.ndim > 1 else x.reshape(1, -1)).copy()
        turns = self.turns()
        if self.last:
            rows[-1] = VALUES[next((k for k in ENDING if k in self.kinds), self.kinds[0])](dtype)
            return rows.reshape(x.shape)
        if self.cut and len(rows) == 1 and (long := rows.size // (2 * len(turns))):
            short = dataclasses.replace(self, cut=False).put(
                rows[0, : rows.size // long * long].reshape(-1, long), dtype, shift
            )
            rows[0, : short.size] = short.reshape(-1)
            return rows.reshape(x.shape)
        n = rows.shape[1]
        for r in range(shift % 2 if len(rows) > 1 else 0, len(rows), 2):
            k = r // 2 + self.phase + shift
            where, kind = turns[k % len(turns)]
            rows[r, _places(where, n, k)] = VALUES[kind](dtype)
        return rows.reshape(x.shape)


def _places(where: str, n: int, k: int) -> slice:
    """The elements of a row of ``n``: the first ones (one, half, all but one), one alone, or all."""
    if where == "all":
        return slice(0, n)
    if where == "leading":
        return slice(0, max(1, (n // 2, 1, n - 1)[k % 3]))
    at = (n - 1, 0, n // 2, k * 7 % n)[k % 4]
    return slice(at, at + 1)


def unlike(
    original: np.ndarray,
    got: np.ndarray,
    exact: Callable[[], np.ndarray],
    bound: Callable[[], np.ndarray],
    wide: Callable[[], np.ndarray] | None = None,
    answers: Answers = Answers.OPEN,
) -> np.ndarray:
    """Which elements of ``got`` are not what ``original`` has: arrays of one shape and float type.

    Where the original has NaN, anything may be that ``answers`` allows. Where it has a number or an infinity that it
    also has in real arithmetic (``exact``, double), the candidate has to have it too, numbers within ``bound`` of one
    of the two: how exact beyond that, other data say. An infinity that is an overflow on the way, other orders of the
    same sums need not come to; and they may come to one that the original's order does not: where the candidate may
    sum in another order, ``wide`` (what it computes in double, where the largest numbers of narrower types do not
    overflow) decides what its infinities and NaNs stand for.
    """
    a, b = original.astype(np.float64), got.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        close = (a == b) | (np.abs(b - a) <= CLOSE * float(finfo(original.dtype).eps) * np.abs(a))
        doubtful = ~np.isnan(a) & ~(close & np.isfinite(a) | (a == b))
        open_ = np.isnan(a) != np.isnan(b) if answers is not Answers.OPEN else np.zeros(a.shape, bool)
        open_ |= (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b)) if answers is Answers.ALL else False
        if not (doubtful | open_).any():
            return doubtful
        y, e = exact().astype(np.float64), bound()
        lost_answers = open_ & lost(a, b, y, answers)
        allowed = np.where(np.isfinite(e), e + 1e-9 * np.abs(y), np.inf)
        near = np.isfinite(b) & ((np.abs(b - y) <= allowed) | (np.abs(b - a) <= allowed))
        number = np.isfinite(a) & np.isfinite(y) & ~near
        wrong = doubtful & (number | (np.isinf(a) & (a == y)))
        if wide is None or not (wrong & ~np.isfinite(b)).any():
            return wrong | lost_answers
        w = wide().astype(np.float64)
        overflowed = ~np.isfinite(b) & ((w == y) | (np.isfinite(y) & (np.abs(w - y) <= allowed)))
        return (wrong & ~overflowed) | lost_answers


CLOSE = 8.0
"""Distances of neighbours up to which two results are not looked at any closer."""
