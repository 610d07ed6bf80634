"""Rows whose own length is not whole vectors, at a distance that is: lanes are one access for all that says so."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.lowering import materialise
from tests.passes.checks import differs

ROWS = """\
kernel k(out: f32* restrict align 16, x: f32 const* restrict align 16, rows: i32, n: i32, p: i32{divisor}, q: i32)
{fact}  par row in 0..rows @ [block.x]
{named}    par c in 0..n / 4 * 4 @ [vec 4, thread.x 32, seq]
      out[{stride} + c] = x[{stride} + c] * 2.0
"""


def rows(stride: str, divisor: str = "", fact: str = "", named: str = "") -> Kernel:
    fact, named = (f"{line}\n" if line else "" for line in (fact and f"  {fact}", named and f"    {named}"))
    return parse_kernel(ROWS.format(stride=stride, divisor=divisor, fact=fact, named=named))


WHOLE = [
    rows("row * p", divisor=" divisible_by 4"),
    rows("row * p", fact="assume p % 4 == 0"),
    rows("row * p", fact="assume p == 4 * q"),
    rows("row * p", fact="assume p == (n + 3) / 4 * 4"),
    rows("row * pitch", named="var pitch: i32 = cdiv(n, 4) * 4"),
    rows("row * pitch", named="var pitch: i32 = (n + 3) & -4"),
    rows("(rows - 1 - row) * p", fact="assume p == 8 * q"),
]
OPEN = [
    rows("row * p"),
    rows("row * p", fact="assume p == 2 * q"),
    rows("row * p + 1", divisor=" divisible_by 4"),
    rows("row * pitch", named="var pitch: i32 = (n + 3) & -2"),
]


@pytest.mark.parametrize("k", WHOLE, ids=range(len(WHOLE)))
def test_lanes_are_one_access(k: Kernel) -> None:
    assert "x_vec" in print_kernel(materialise(k)), print_kernel(k)


@pytest.mark.parametrize("k", OPEN, ids=range(len(OPEN)))
def test_lanes_are_several_where_nothing_says_so(k: Kernel) -> None:
    assert "x_vec" not in print_kernel(materialise(k)), print_kernel(k)


@pytest.mark.parametrize("n", [4, 7, 133])
def test_the_meaning_stays(n: int) -> None:
    k = rows("row * p", fact="assume p == (n + 3) / 4 * 4")
    sizes = [{"rows": 3, "n": n, "p": (n + 3) // 4 * 4, "q": 1}]
    assert differs(k, k, sizes, elements=1000) is None
