"""Lanes of records are picked, put and chosen between as those of plain arrays are."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp.execution.record_lanes import copied, either, picked, put

PAIR = np.dtype([("value", np.float64), ("size", np.float64)])


def _some(n: int, dtype: np.dtype, first: float) -> np.ndarray:
    return np.arange(first, first + n).astype(dtype) if dtype.names is None else _pairs(n, first)


def _pairs(n: int, first: float) -> np.ndarray:
    out = np.zeros(n, PAIR)
    out["value"], out["size"] = np.arange(first, first + n), np.nan
    return out


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), PAIR])
def test_the_same_as_by_index(dtype: np.dtype) -> None:
    a, b, at = _some(6, dtype, 0), _some(6, dtype, 10), np.array([4, 1, 1, 5])
    assert picked(a, at).tobytes() == a[at].tobytes()
    chosen = either(np.arange(6) % 2 == 0, a, b)
    assert chosen.dtype == dtype and chosen.tobytes() == np.where(np.arange(6) % 2 == 0, a, b).tobytes()
    mine, theirs = copied(a), a.copy()
    assert mine.dtype == dtype and not np.shares_memory(mine, a)
    put(mine, at[:2], b[:2])
    theirs[at[:2]] = b[:2]
    assert mine.tobytes() == theirs.tobytes() != a.tobytes()


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), PAIR])
def test_one_value_for_all(dtype: np.dtype) -> None:
    a, one = _some(4, dtype, 0), _some(1, dtype, 7)
    for value in (one[0], one.reshape(()), np.broadcast_to(one.reshape(()), (2,))):
        mine, theirs = a.copy(), a.copy()
        put(mine, np.array([0, 2]), value)
        theirs[np.array([0, 2])] = value
        assert mine.tobytes() == theirs.tobytes()
        if np.ndim(value) == 0:
            assert (
                either(np.array([True, False] * 2), a, value).tobytes()
                == either(~np.array([False, True] * 2), a, np.asarray(value)).tobytes()
            )
