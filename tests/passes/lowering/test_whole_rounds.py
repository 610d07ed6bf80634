"""Loops over rounds of threads: none where one round takes all, no conditions where every round is whole."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.lowering import materialise
from tests.passes.checks import differs

SUMS = """\
kernel k(y: f32*, x: f32 const*, n: i32 range 1..512 divisible_by 64, m: i32 range 1..512)
  launch grid(3) block(32)
  par r in 0..3 @ [block.x]
    reduce(+) s: f32 = 0.0 over j in 0..{end} @ [{levels}]
      yield x[r * 512 + j]
    y[r] = s
"""


@pytest.mark.parametrize(
    ("end", "levels", "loop", "asks"),
    [
        ("256", "thread.x 32, unroll 2, seq", True, False),
        ("250", "thread.x 32, unroll 2, seq", True, True),
        ("64", "thread.x 32, unroll 2, seq", False, False),
        ("50", "thread.x 32, unroll 2, seq", False, True),
        ("256", "thread.x 32, unroll 16, seq", False, True),
        ("n", "thread.x 32, unroll 2, seq", True, False),
        ("m", "thread.x 32, unroll 2, seq", True, True),
        ("n", "unroll 2, thread.x 32, seq", True, False),
        ("n", "thread.x 64, unroll 2, seq", True, True),
    ],
)
def test_rounds_that_are_whole_ask_nothing(end: str, levels: str, loop: bool, asks: bool) -> None:
    kernel = parse_kernel(SUMS.format(end=end, levels=levels))
    lowered = materialise(kernel)
    text = print_kernel(lowered).partition("shfl")[0]
    assert ("for j" in text) == loop and ("if " in text) == asks, text
    assert differs(kernel, lowered, [{"n": n, "m": m} for n, m in ((64, 1), (192, 70))], elements=1600) is None
