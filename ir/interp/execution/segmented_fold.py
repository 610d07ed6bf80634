"""Segmented tree reduction: any operator of any domain, in log2(longest segment) vectorised rounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def fold_segments(op: Callable, values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Combine each run of ``counts[s]`` consecutive entries of ``values`` with ``op``; empty runs are dropped.

    Neighbours are combined pairwise, so the association is a balanced tree: one of those a device may use.
    """
    counts = counts[counts > 0]
    while len(counts) and counts.max() > 1:
        starts = np.cumsum(counts) - counts
        rank = np.arange(len(values)) - np.repeat(starts, counts)
        even = np.flatnonzero(rank % 2 == 0)
        paired = even[rank[even] + 1 < np.repeat(counts, counts)[even]]
        out = values[even].copy()
        slot = np.searchsorted(even, paired)
        out[slot] = op(values[paired], values[paired + 1])
        values, counts = out, (counts + 1) // 2
    return values
