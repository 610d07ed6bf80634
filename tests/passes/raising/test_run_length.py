"""How long a run takes, reckoned before it is started: loops of sums are counted without going round them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.passes.raising.check.run_length import MOST_TRIPS, statements

SHOWN = 60
"""Rounds after which a loop counts as one without an end."""

HOLDS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _rounds(first: int, holds: Callable[[int, int], bool], end: int, step: int) -> int:
    i, rounds = first, 0
    while holds(i, end) and rounds < SHOWN:
        i, rounds = i + step, rounds + 1
    return rounds


@pytest.mark.parametrize("op", HOLDS)
@pytest.mark.parametrize("mirrored", [False, True])
def test_rounds_of_a_loop_of_sums(op: str, mirrored: bool) -> None:
    said = {"<": "n > i", "<=": "n >= i", ">": "n < i", ">=": "n <= i"}[op] if mirrored else f"i {op} n"
    for step in (1, 3, -1, -4):
        loop = f"for (int i = first; {said}; i += {step}) y[0] = i;"
        kernel = load(
            f"__global__ void k(int* y, int n, int first) {{ {loop} }}\n"
            "void host(int* y, int n, int f) { k<<<1, 1>>>(y, n, f); }\n",
            name="k.cu",
        )
        for first, end in itertools.product((-2, 0, 1, 7), (-5, 0, 1, 6, 7, 20)):
            rounds = _rounds(first, HOLDS[op], end, step)
            taken = statements(kernel, {"n": end, "first": first})
            assert taken == (max(1, 2 * rounds) if rounds < SHOWN else 2 * MOST_TRIPS), (op, first, end, step)


def test_a_step_may_pass_an_end_that_is_met() -> None:
    kernel = load(
        "__global__ void k(int* y, int n) { for (int i = 0; i != n; i += 3) y[0] = i; }\n"
        "void host(int* y, int n) { k<<<1, 1>>>(y, n); }\n",
        name="k.cu",
    )
    assert [statements(kernel, {"n": n}) for n in (0, 6, 7)] == [1, 4, 6]


def test_what_is_more_than_enough_is_not_looked_at_further() -> None:
    kernel = load(
        "__global__ void k(int* y, int n) { for (int i = threadIdx.x; i < n * (threadIdx.x + 1); ++i) y[i] = i; }\n"
        "void host(int* y, int n) { k<<<2, 64>>>(y, n); }\n",
        name="k.cu",
    )
    whole = statements(kernel, {"n": 10})
    assert whole > 500
    assert 100 < statements(kernel, {"n": 10}, 100.0) <= whole == statements(kernel, {"n": 10}, whole)
