"""Integers that a type does not hold are passed as C++ converts them."""

from __future__ import annotations

import pytest

from ktc.backends.runtimes.common import scalar
from ktc.ir.types import I32, U32, U64, Scalar


@pytest.mark.parametrize(
    ("value", "t", "passed"),
    [
        (-1, U32, 2**32 - 1),
        (2**32 + 5, U32, 5),
        (2**31, I32, -(2**31)),
        (-7, I32, -7),
        (2**64 - 1, U64, 2**64 - 1),
        (300, Scalar("int", 8), 44),
    ],
)
def test_integers_wrap(value: int, t: Scalar, passed: int) -> None:
    assert int(scalar(value, t)) == passed
