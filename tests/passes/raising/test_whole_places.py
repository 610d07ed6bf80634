"""Places that are rounded down to whole vectors, and are at whole vectors anyway."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel, print_body
from ktc.passes.raising.lanes.whole_places import at_whole_places

ROUNDED = """
kernel k(y: f32*, x: f32 const*, n: i32 divisible_by 4, m: i32)
  launch grid(1) block(64)
  for i in 0..8
    let at: i32 = i * 8
    y[i] = x[{}]
"""


@pytest.mark.parametrize(
    ("place", "plain"),
    [
        ("(at >> 2) * 4", "at]"),
        ("(n * m + i * 4 >> 2) * 4", "n * m + i * 4]"),
        ("8 * ((at + n) / 4)", "(at + n) * 2]"),
        ("(at + 1 >> 2) * 4", ""),
        ("(m * 2 >> 2) * 4", ""),
        ("(at >> 2) * 2", ""),
        ("(i * 6 / 3) * 3", ""),
    ],
)
def test_a_place_is_what_is_rounded_where_that_is_whole(place: str, plain: str) -> None:
    kernel = parse_kernel(ROUNDED.format(place))
    after = at_whole_places(kernel.body, kernel)
    assert plain in print_body(after).split("x[")[1] if plain else after == kernel.body
