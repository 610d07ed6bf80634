"""Statistics of timings: medians and ratios with distribution-free 95 % intervals, and when to stop measuring.

Run times are skewed and have outliers, so nothing here assumes a distribution: the interval of a median comes from
order statistics and the binomial distribution (e.g. Conover, Practical Nonparametric Statistics, 3.2).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from statistics import median

from .base import Timing

CONFIDENCE = 0.95
PRECISION = 0.01
"""Stop once the half-width of the interval is below this fraction of the median."""

WARMUP = 3
MIN_SAMPLES, MAX_SAMPLES = 8, 400

FEW = 5
"""The extremes of so many samples enclose the median with 94 %, those of fewer with less."""

PATIENCE = 5.0
"""Pairs are measured until there are :data:`FEW`, or this many budgets are over."""

UNSURE = (1.5, 1.25, 1.1, 1.05)
"""What a ratio may be off by, beyond the extremes of 1, 2, 3 and 4 pairs: assumed, not measured. Launches of a second
on processors that others use, too, were seen to vary by as much."""


@dataclass(frozen=True)
class Interval:
    """A median with a confidence interval."""

    median: float
    low: float
    high: float

    @property
    def precision(self) -> float:
        """Half-width relative to the median."""
        return (self.high - self.low) / 2 / self.median if self.median else float("inf")


def order_ranks(n: int, confidence: float = CONFIDENCE) -> tuple[int, int]:
    """0-based ranks (low, high) of the sorted sample that enclose the median with at least ``confidence``.

    For n below 6 no pair reaches 95 %: the extremes are returned.
    """
    tail, low = 0.0, 0
    for k in range(n // 2):
        tail += comb(n, k) / 2.0**n
        if tail > (1 - confidence) / 2:
            break
        low = k + 1
    return (max(low - 1, 0), n - max(low, 1)) if n else (0, 0)


def median_interval(samples: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The sample median and its interval. Raises ValueError on no samples."""
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    low, high = order_ranks(len(ordered), confidence)
    return Interval(median(ordered), ordered[low], ordered[high])


def ratio_interval(a: Sequence[float], b: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The median of the pairwise ratios ``a[i] / b[i]`` of interleaved measurements, with its interval.

    Pairing cancels drift (clocks, temperature) that both sides of a pair share. The interval of fewer than :data:`FEW`
    pairs is wider than what they show, as :data:`UNSURE` says: one pair alone would prove anything.
    """
    found = median_interval([x / y for x, y in zip(a, b)], confidence)
    doubt = UNSURE[len(a) - 1] if len(a) <= len(UNSURE) else 1.0
    return Interval(found.median, found.low / doubt, found.high * doubt)


def timing(samples: Sequence[float], cold: bool = True) -> Timing:
    """Seconds per launch, with the interval of their median; ``cold``: measured on buffers that no cache held."""
    i = median_interval(samples)
    return Timing(i.median, i.low, i.high, len(samples), cold)


def collect(
    step: Callable[[], tuple[float, ...]],
    budget_s: float,
    *,
    warmup: int = WARMUP,
    least: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> list[list[float]]:
    """Call ``step`` (one measurement of every competitor) until all medians are precise or the budget is over.

    The first ``warmup`` calls are dropped; at least one call is kept however small the budget, and ``least`` unless
    they take :data:`PATIENCE` times the budget. A step that alone takes longer than half the budget, or that reports a
    launch as long, is not warmed up further. With two competitors their ratio must be precise too.
    """
    start = clock()
    first = step()
    slow = max(clock() - start, *first) > budget_s / 2  # then each launch has to count
    if slow and least == 1:
        return [[x] for x in first]
    for _ in range(0 if slow else warmup - 1):
        step()
    columns: list[list[float]] = [[x] if slow else [] for x in first]
    while len(columns[0]) < MAX_SAMPLES:
        n, spent = len(columns[0]), clock() - start
        if n and spent > budget_s * (1 if n >= least else PATIENCE):
            break
        if n >= MIN_SAMPLES and n % 4 == 0 and _precise(columns):
            break
        for column, x in zip(columns, step()):
            column.append(x)
    return columns


def _precise(columns: list[list[float]]) -> bool:
    if any(median_interval(c).precision > PRECISION for c in columns):
        return False
    return len(columns) != 2 or ratio_interval(columns[0], columns[1]).precision <= PRECISION
