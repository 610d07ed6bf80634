"""How far a loop's variable is from where the loop begins is known where the loop says how far it goes."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.search.verification.integers.ranges import dead, wraps

TILES = """\
kernel k(a: f32 const*, out: f32*, n: i32 range 1..32768)
  launch grid(1) block(16)
  for t = 0; t < n / 8 * 8; t + 8
    for i = t; i < END; i + 1
      out[i] = a[n * (i - t) * FACTOR]
"""
PROMISED = {"n": (1, 32768)}


@pytest.mark.parametrize(
    ("end", "factor", "fits"),
    [
        ("t + 8", 16, True),
        ("min(t + 8, n)", 16, True),
        ("t + 8", 1 << 14, False),  # 7 * 2^29
        ("n", 16, False),
        ("t * 2 + 8", 16, False),
    ],
)
def test_an_index_of_a_place_in_a_tile(end: str, factor: int, fits: bool) -> None:
    text = TILES.replace("END", end).replace("FACTOR", str(factor))
    assert (not list(wraps(parse_kernel(text), PROMISED))) == fits


@pytest.mark.parametrize(("moved", "never"), [("", True), ("      t = t - 1000\n", False)])
def test_a_beginning_that_changes_says_nothing(moved: str, never: bool) -> None:
    text = TILES.replace("END", "t + 8")
    head = text[: text.index("      out")]
    kernel = parse_kernel(f"{head}{moved}      if i - t > 100\n        out[0] = 1.0\n")
    assert bool(dead(kernel, PROMISED)) == never
