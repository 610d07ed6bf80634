"""Floats that are whole numbers: what they lie in, and the integers that they are."""

from __future__ import annotations

import pytest

from ktc.ir.arith import REWRITES, Facts
from ktc.ir.arith.interval import Interval
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Expr, Store
from ktc.ir.text import parse_kernel, print_expr
from ktc.ir.types import BF16, F16
from ktc.ir.walk import walk
from ktc.passes.tensor.whole_floats import as_integer, holds, whole_values

KERNEL = """\
kernel k(y: f32* noalias, w: u32 const* noalias, z: f32 const* noalias, n: i32)
  par i in 0..n @ [thread.x 32, block.x]
    y[i] = VALUE
"""


def value(text: str) -> tuple[Kernel, Expr]:
    kernel = parse_kernel(KERNEL.replace("VALUE", text))
    (store,) = (s for s in walk(kernel.body) if isinstance(s, Store))
    return kernel, store.value


@pytest.mark.parametrize("text, low, high, integer", [
    ("f32(w[i] & 15_u32) - 8.0", -8, 7, "i32(w[i] & 15_u32) - 8"),
    ("-f32(w[i] >> 28_u32)", -15, 0, "0 - i32(w[i] >> 28_u32)"),
    ("f32(w[i] & 3_u32) * 2.0 + 1.0", 1, 7, "i32(w[i] & 3_u32) * 2 + 1"),
])  # fmt: skip
def test_whole_numbers_of_integers_and_constants(text: str, low: int, high: int, integer: str) -> None:
    kernel, e = value(text)
    assert whole_values(e, Facts(kernel, REWRITES)) == Interval(low, high)
    assert print_expr(as_integer(e)).replace(" as i32", "").replace("i32(", "(") == integer.replace("i32(", "(")


@pytest.mark.parametrize("text", ["f32(w[i] & 15_u32) * 0.5", "f32(w[i] & 15_u32) - z[i]", "f32(w[i])"])
def test_others_are_none(text: str) -> None:
    """Halves, what is read as a float, and more bits than a significand has."""
    kernel, e = value(text)
    assert whole_values(e, Facts(kernel, REWRITES)) is None


def test_what_narrow_types_hold() -> None:
    assert holds(F16, Interval(-2048, 2048)) and not holds(F16, Interval(0, 2049))
    assert holds(BF16, Interval(0, 256)) and not holds(BF16, Interval(-257, 0))
