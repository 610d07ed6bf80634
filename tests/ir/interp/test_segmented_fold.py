"""Sums of segments: the same association whether all segments have one length or not."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp.execution.segmented_fold import fold_segments
from ktc.ir.interp.memory.atomics import _runs


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 13])
def test_segments_of_one_length_add_up_as_others_do(length: int) -> None:
    values = np.random.default_rng(length).normal(size=4 * length).astype(np.float32)
    counts = np.full(4, length)
    own = fold_segments(np.add, values, counts)
    beside = fold_segments(np.add, np.append(values, np.float32(7)), np.append(counts, 1))  # one more of another length
    assert own.dtype == np.float32 and own.tolist() == beside[:4].tolist()


@pytest.mark.parametrize("places", [[], [3], [0, 0, 1, 4, 4, 4]])
def test_runs_of_equal_places(places: list[int]) -> None:
    where, counts = _runs(np.array(places, np.int64))
    want, times = np.unique(np.array(places, np.int64), return_counts=True)
    assert where.tolist() == want.tolist() and counts.tolist() == times.tolist()
