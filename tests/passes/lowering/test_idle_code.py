"""Lowered code has no loops and branches in which nothing stands."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.passes.lowering import materialise
from ktc.passes.lowering.cleanup import without_idle

ROWS = """
kernel k(y: f32* restrict, x: f32 const* restrict, n: i32 divisible_by 4, m: i32)
  par row in 0..n
    par col in 0..m
      y[row * m + col] = x[row * m + col] * 2.0
"""


def test_a_tail_without_a_rest_leaves_no_branch() -> None:
    rows = "distribute{loop=row map=[unroll 2, thread.y 2, block.y] tail=cut}"
    script = f"{rows} | distribute{{loop=col map=[thread.x 32, block.x]}}"
    applied = apply_script(parse_kernel(ROWS), parse_script(script))
    assert applied.refused is None, applied.refused
    text = print_kernel(materialise(applied.kernel))
    assert "pass" not in text and "y[" in text


@pytest.mark.parametrize(
    ("body", "stays"),
    [
        ("for i = 0; i < n; i + 1", False),
        ("for i = 0; i < n; i + m", True),  # where m is 0 it never ends
        ("for i = 0; i < n; i + 0", True),
        ("while n > 0", True),
        ("if n > 0", False),
        ("if x[0] > 0.0", False),
    ],
)
def test_what_goes_is_what_ends_and_does_nothing(body: str, stays: bool) -> None:
    head = "kernel k(y: f32*, x: f32 const*, n: i32, m: i32)\n  launch grid(1) block(32)\n"
    k = parse_kernel(f"{head}  {body}\n    pass\n  y[0] = 1.0\n")
    assert len(without_idle(k.body)) == 1 + stays
