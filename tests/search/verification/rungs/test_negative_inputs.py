"""A maximum that begins with zero is seen where no element is positive, though a flat buffer shows no rows."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.ir.workload import ArgSpec
from ktc.search.verification import verify
from tests.search.verification.gate_samples import _workload, scalar

ROWS = """
kernel peaks(y: f32* noalias, x: f32 const* noalias, rows: i32)
  launch grid(rows) block(32)
  let at: i32 = i32(blockIdx.x) * 32 + i32(threadIdx.x)
  var v: f32 = -inf
  v = max(v, x[at])
  for offset = 16; offset > 0; offset / 2
    v = max(v, shfl_xor(v, offset))
  y[at] = v
"""
FLAT = _workload(
    "peaks",
    (ArgSpec("y", "f32", "out", ("rows * 32",)), ArgSpec("x", "f32", "in", ("rows * 32",)), scalar("rows", "rows")),
    {"rows": 6},
)


@pytest.mark.parametrize("value", ["x[at]", "12.0 - x[at]"])
@pytest.mark.parametrize(("function", "identity"), [("max", "-inf"), ("min", "inf")])
def test_the_identity_of_a_row(function: str, identity: str, value: str) -> None:
    text = ROWS.replace("max(", f"{function}(").replace("-inf", identity).replace("x[at]", value)
    assert verify(parse_kernel(text), parse_kernel(text.replace(identity, "0.0")), FLAT).status == "REJECTED"


FLOOR = ROWS.replace("  y[at] = v\n", "  v = max(v, -(1e+30))\n  y[at] = 4.0 * x[at] + v\n")


@pytest.mark.parametrize("other", ["-(1e+29)", "-inf"])
def test_a_number_for_minus_infinity(other: str) -> None:
    """Twice as far below zero as that is all that is large enough to show it, and not so large that 4 x overflows."""
    assert verify(parse_kernel(FLOOR), parse_kernel(FLOOR.replace("-(1e+30)", other)), FLAT).status == "REJECTED"
    assert verify(parse_kernel(FLOOR), parse_kernel(FLOOR.replace("max(v, -(1e+30))", "max(-(1e+30), v)")), FLAT).ok


WHOLE = ROWS.replace("f32", "i32").replace("-inf", "-2147483648")
OF_WHOLE = _workload(
    "peaks",
    (ArgSpec("y", "i32", "out", ("rows", "32")), ArgSpec("x", "i32", "in", ("rows", "32")), scalar("rows", "rows")),
    {"rows": 6},
)


@pytest.mark.parametrize("identity", ["0", "-1", "-2147483647"])
def test_the_identity_of_a_row_of_integers(identity: str) -> None:
    """All of a row has to be below zero, or the least there is."""
    right, wrong = WHOLE, WHOLE.replace("-2147483648", identity)
    assert verify(parse_kernel(right), parse_kernel(wrong), OF_WHOLE).status == "REJECTED"
    again = WHOLE.replace("max(v, x[at])", "max(x[at], v)")
    assert verify(parse_kernel(right), parse_kernel(again), OF_WHOLE).ok
