"""Loops over rows that count from where a row begins in memory."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.passes.raising.normalise.offsets import from_row_starts
from tests.passes.checks import body_of, differs

HEAD = "kernel k(y: i32* restrict, x: i32 const* restrict, w: i32 const* restrict, n: i32, m: i32)\n"
ROWS = f"""{HEAD}\
  par r in 0..m
    var start: i32 = r * n
    let end: i32 = (r + 1) * n
    reduce(+) s: i32 = 0 over i in start..end
      yield x[i] * w[i - start]
    par j in start..end
      y[j] = x[j] + s * w[j - r * n]
"""
SIZES = [{"n": n, "m": m} for n, m in ((1, 1), (5, 3), (32, 4))]


def test_rows_are_counted_from_0() -> None:
    kernel = parse_kernel(ROWS)
    done = kernel.with_(body=from_row_starts(kernel.body))
    assert body_of(done) == (
        "  par r in 0..m\n"
        "    var start: i32 = r * n\n"
        "    let end: i32 = (r + 1) * n\n"
        "    reduce(+) s: i32 = 0 over i in 0..n\n"
        "      yield x[start + i] * w[i]\n"
        "    par j in 0..n\n"
        "      y[start + j] = x[start + j] + s * w[j]\n"
    )
    assert differs(kernel, done, SIZES) is None


@pytest.mark.parametrize(
    "loop",
    [
        "for i in start..end",
        "par i in 1..n",
        "par i in start..n",
        "par i in start..start + r",
        "par i in x[r]..x[r] + n",
    ],
)
def test_others_stay(loop: str) -> None:
    """Serial ones, those that begin where no row does, and rows of lengths of their own."""
    text = (
        f"{HEAD}  par r in 0..m\n    let start: i32 = r * n\n    let end: i32 = start + n\n    {loop}\n      y[i] = 1\n"
    )
    body = parse_kernel(text).body
    assert from_row_starts(body) == body
