"""Outputs at production size: rounding passes, misplaced elements do not."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from ktc.search.verification.floats.agreement import CHUNK, disagreement


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_one_rounding_is_no_disagreement(dtype: type) -> None:
    want = np.random.default_rng(0).normal(size=(50, 100)).astype(dtype)
    assert disagreement("out", want, np.nextafter(want, dtype(np.inf))) == ""


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32])
def test_a_swapped_pair_is_found(dtype: type) -> None:
    want = (np.random.default_rng(0).normal(size=CHUNK + 5) * 100).astype(dtype)
    got = want.copy()
    got[[CHUNK + 1, CHUNK + 3]] = got[[CHUNK + 3, CHUNK + 1]]
    assert "out[" in disagreement("out", want, got)


def test_infinities_and_nan_have_places() -> None:
    want = np.array([1.0, np.inf, np.nan, -np.inf], np.float32)
    assert disagreement("y", want, want.copy()) == ""
    for at, value in ((1, -np.inf), (1, 5.0), (2, 1.0), (0, np.nan), (0, np.inf)):
        got = want.copy()
        got[at] = value
        assert disagreement("y", want, got).startswith(f"y[{at}]")


def test_sums_of_many_terms_come_in_any_order() -> None:
    """A lost term of many still shows; rounding in another order does not."""
    rng = np.random.default_rng(0)
    terms = rng.standard_normal((100, 20_000)).astype(np.float32)
    one = np.array([functools.reduce(np.add, row, np.float32(0)) for row in terms], np.float32)
    other = np.array([functools.reduce(np.add, row[::-1], np.float32(0)) for row in terms], np.float32)
    assert disagreement("y", one, other, terms=20_000) == ""
    assert disagreement("y", one, one - terms[:, 7], terms=20_000)
