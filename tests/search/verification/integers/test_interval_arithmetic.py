"""Intervals hold every result, by going through all of them."""

from __future__ import annotations

import itertools
import operator

import pytest

from ktc.search.verification.integers.interval_arithmetic import BINARY, CALLS, DECIDE

ENDS = range(-4, 6)
INTERVALS = [(a, b) for a, b in itertools.product(ENDS, ENDS) if a <= b]


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # C's: towards zero


EXACT = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": quotient,
    "%": lambda a, b: a - quotient(a, b) * b,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "min": min,
    "max": max,
    "cdiv": lambda a, b: -(-a // b),
}
DEFINED = {"/": lambda b: b != 0, "%": lambda b: b != 0, "<<": lambda b: b >= 0, ">>": lambda b: b >= 0}


@pytest.mark.parametrize("name", [*BINARY, *CALLS])
def test_every_result_is_in_the_interval(name: str) -> None:
    known = 0
    for a, b in itertools.product(INTERVALS, INTERVALS):
        found = {**BINARY, **CALLS}[name](a, b)
        if found is None:
            continue
        known += 1
        results = {
            EXACT[name](x, y)
            for x, y in itertools.product(range(a[0], a[1] + 1), range(b[0], b[1] + 1))
            if DEFINED.get(name, lambda y: True)(y)
        }
        assert not results or (found[0] <= min(results) and max(results) <= found[1]), (a, b, found)
    assert known > len(INTERVALS) ** 2 // 10


@pytest.mark.parametrize("name", DECIDE)
def test_a_comparison_is_decided_only_where_all_agree(name: str) -> None:
    compare = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq}
    for a, b in itertools.product(INTERVALS, INTERVALS):
        found = DECIDE[name](a, b)
        if found is not None:
            pairs = itertools.product(range(a[0], a[1] + 1), range(b[0], b[1] + 1))
            assert all(compare.get(name, operator.ne)(x, y) is found for x, y in pairs), (a, b)


def test_a_divisor_that_may_be_anything_makes_nothing_larger() -> None:
    assert BINARY["/"]((-3, 9), (-2, 2)) == (-9, 9) and BINARY["%"]((0, 9), (-2, 5)) == (0, 4)
    assert BINARY["/"]((1, 1), (0, 0)) is None and BINARY["%"]((1, 1), (0, 0)) is None
