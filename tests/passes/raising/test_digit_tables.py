"""Private arrays of a few small numbers become digits of a constant."""

from __future__ import annotations

import pytest

from ktc.ir.fold import evaluate, i32
from ktc.ir.nodes import Var, fresh
from ktc.ir.text import print_kernel
from ktc.ir.types import I32
from ktc.passes.raising.lanes.digit_tables import digits
from ktc.passes.raising.lanes.lane_fields import numbers
from tests.passes.raising.raised_once import raised

TABLES = ((0, 16, 4, 20, 8, 24, 12, 28), (5, 3), (-7, -3, 1), (0, 1, 3, 7, 15, 31), (9, 9, 9), (1000, 3000, 0))


@pytest.mark.parametrize("values", TABLES)
def test_each_element_is_a_digit(values: tuple[int, ...]) -> None:
    lane = Var(fresh("lane", I32))
    for found in (digits(values, lane, I32), numbers(lane, values)):
        assert found is not None
        assert [evaluate(found, {lane.sym.name: k}) for k in range(len(values))] == list(values)


def test_what_takes_more_bits_than_a_constant_has_stays() -> None:
    assert digits([3**k for k in range(12)], i32(0), I32) is None


SOURCE = """
__global__ void k(const unsigned* w, float* y, int n) {
    int order[4] = {0, 8, 4, 12};
    %s
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = w[i / 4] >> order[i %% 4] & 15;
}
void launch(const unsigned* w, float* y, int n) { k<<<(n + 31) / 32, 32>>>(w, y, n); }
"""


def test_a_table_is_no_array_any_more() -> None:
    _, outcome = raised(SOURCE % "")
    assert "array" not in print_kernel(outcome.kernel)


def test_an_array_that_changes_is_one() -> None:
    _, outcome = raised(SOURCE % "if (n > 7) order[n % 4] = 16;")
    assert "array order" in print_kernel(outcome.kernel)
