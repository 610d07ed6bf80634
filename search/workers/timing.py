"""Timing as the search sees it: how many buffers a cold measurement rotates through, and what a comparison says.

The statistics are those of :mod:`ktc.backends.timing_stats`, re-exported here.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.backends.base import Timing
from ktc.backends.timing_stats import Interval, collect, median_interval, ratio_interval, timing
from ktc.search.bounds.rates import PAST

PAST_CACHE = 2.0
"""A rotation touches this many times the last-level cache before it comes back to a buffer."""

MAX_COPIES = 128
MEMORY_SHARE = 0.5


def rotation(bytes_per_set: int, cache_bytes: int, memory_bytes: int = 0, *, alone: bool = False) -> int:
    """Argument sets to rotate through, so that none of a set is left in a cache of ``cache_bytes`` when its turn comes.

    At least 2 when there is a cache to leave, but for ``alone``: where nothing is kept in the cache on purpose, as on a
    processor, one set that is :data:`~ktc.search.bounds.rates.PAST` times as large will do. Never more than half of
    ``memory_bytes`` (0: unknown) or 128 sets: where those still fit in the cache, the CUDA runtime overwrites it
    between replays.
    """
    if bytes_per_set <= 0 or cache_bytes <= 0:
        return 1
    if alone and bytes_per_set >= PAST * cache_bytes:
        return 1
    wanted = max(2, 1 + -int(-PAST_CACHE * cache_bytes // bytes_per_set))
    if memory_bytes:
        wanted = min(wanted, max(1, int(MEMORY_SHARE * memory_bytes // bytes_per_set)))
    return min(wanted, MAX_COPIES)


@dataclass(frozen=True)
class Comparison:
    """Baseline against candidate: ``speedup`` is baseline / candidate with its 95 % interval."""

    baseline: Timing
    candidate: Timing
    speedup: Interval

    @property
    def verdict(self) -> str:
        """faster | slower | same (the interval contains 1)."""
        if self.speedup.low > 1:
            return "faster"
        return "slower" if self.speedup.high < 1 else "same"


__all__ = ["Comparison", "Interval", "collect", "median_interval", "ratio_interval", "rotation", "timing"]
