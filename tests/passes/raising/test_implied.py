"""Conditions that loops and other conditions imply go, and no others: nothing is taken of sizes that bound no loop."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.raising.recognise.implied import without_implied

KERNEL = """\
kernel k(y: f32*, n: i32, m: i32)
  par i in {range} @ [seq]
    if {condition}
      y[i] = 1.0
"""


def kept(range_: str, condition: str) -> bool:
    k = parse_kernel(KERNEL.format(range=range_, condition=condition))
    return "if" in print_kernel(k.with_(body=without_implied(k.body)))


@pytest.mark.parametrize(
    "range_, condition",
    [
        ("0..n", "i < n && i >= 0"),
        ("1..n - 1", "i + 1 < n && i - 1 >= 0"),
        ("0..cdiv(n, 4)", "i * 4 < n"),
        ("0..(n + 3) / 4", "i * 4 < n"),
        ("0..min(n, m)", "i < n && i < m"),
        ("0..n", "n > 0"),
        ("0..n", "u32(i) < u32(n)"),
        ("3..n", "u32(i) - 3_u32 < u32(n)"),
        ("0..n", "i32(u32(i) - 3_u32) < n"),
        ("0..n", "i32(u32(i) * 2_u32 - u32(i) - 3_u32) >= -3"),
    ],
)
def test_what_a_loop_implies_is_not_tested(range_: str, condition: str) -> None:
    assert not kept(range_, condition)


@pytest.mark.parametrize(
    "range_, condition",
    [
        ("0..n", "i < m"),
        ("0..n", "i > 0"),
        ("0..n", "m >= 0"),
        ("0..n", "i + m >= 0"),
        ("0..cdiv(n, 4)", "i * 4 + 1 < n"),
        ("0..max(n, m)", "i < n"),
        ("0..n", "u32(i) - 3_u32 < u32(n)"),
        ("0..n", "u32(i - 3) < u32(n)"),
    ],
)
def test_what_it_does_not_imply_is(range_: str, condition: str) -> None:
    assert kept(range_, condition)
