"""From data to pixels: linear and logarithmic scales, each with ticks at round values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """``low``..``high`` of the data lie at ``start``..``end`` in pixels (``end`` may be the smaller). ``log``: by
    decades; then both are above 0. ``whole``: ticks at whole numbers alone."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    whole: bool = False

    def __call__(self, value: float) -> float:
        share = (self._at(value) - self._at(self.low)) / (self._at(self.high) - self._at(self.low))
        return self.start + (self.end - self.start) * share

    def _at(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def ticks(self, about: int = 5) -> list[float]:
        """Round values within, some ``about`` of them."""
        found = _decades(self.low, self.high, about) if self.log else _steps(self.low, self.high, about)
        return [v for v in found if not self.whole or v == round(v)]


def over(values: Iterable[float], start: float, end: float, log: bool = False, margin: float = 0.05) -> Scale:
    """The scale that holds all ``values``, with a ``margin`` at either end; it is never of no extent."""
    found = list(values)
    low, high = min(found), max(found)
    if log:
        widen = max((high / low) ** margin, 1.05)
        return Scale(low / widen, high * widen, start, end, True)
    widen = (high - low) * margin or abs(high) * margin or 1.0
    return Scale(low - widen, high + widen, start, end)


def _steps(low: float, high: float, about: int) -> list[float]:
    rough = (high - low) / max(1, about)
    base = 10.0 ** math.floor(math.log10(rough))
    step = next(base * m for m in (1, 2, 5, 10) if base * m >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [step * i for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _decades(low: float, high: float, about: int) -> list[float]:
    """1, 2 and 5 of each decade, or fewer where there are many; equal steps where there is less than half a decade."""
    if high / low < 3:
        return _steps(low, high, about)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 3, 5), (1, 2, 5), (1, 3), (1,)):
        found = [d * 10.0**e for e in decades for d in digits if low <= d * 10.0**e <= high]
        if len(found) <= about + 1:
            return found
    every = math.ceil(len(found) / max(1, about))
    return found[::every]


__all__ = ["Scale", "over"]
