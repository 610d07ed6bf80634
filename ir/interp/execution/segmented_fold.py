"""Segmented tree reduction: any operator of any domain, in log2(longest segment) vectorised rounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .true_counts import all_true


def fold_segments(op: Callable, values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Combine each run of ``counts[s]`` consecutive entries of ``values`` with ``op``; empty runs are dropped.

    Neighbours are combined pairwise, so the association is a balanced tree: one of those a device may use.
    """
    if len(counts) == len(values) and all_true(counts):
        return values
    counts = counts[counts > 0]
    if len(counts) and counts.min() == counts.max():
        return _fold_rows(op, values.reshape(len(counts), -1))
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


def _fold_rows(op: Callable, rows: np.ndarray) -> np.ndarray:
    """The same for segments of one length, the rows of an array: which entries are neighbours needs no looking up."""
    while (length := rows.shape[1]) > 1:
        even = length - length % 2
        pairs = op(rows[:, 0:even:2].ravel(), rows[:, 1:even:2].ravel()).reshape(len(rows), -1)
        rows = np.concatenate((pairs, rows[:, even:]), axis=1) if length % 2 else pairs
    return rows[:, 0]
