"""What a condition hangs on may be said by another argument, where a candidate assumes that it is made of it."""

import pytest

from ktc.ir.text import parse_kernel
from ktc.search.verification.instances.outcomes import _with_equals


@pytest.mark.parametrize(
    ("names", "all_"),
    [
        ({"x", "blocks"}, {"x", "blocks", "n", "rows", "width"}),
        ({"x", "n"}, {"x", "blocks", "n", "rows", "width"}),
        ({"x"}, {"x"}),
        ({"m"}, {"m"}),
    ],
)
def test_arguments_of_an_equality_stand_for_each_other(names: set[str], all_: set[str]) -> None:
    kernel = parse_kernel(
        "kernel k(y: f32*, x: f32 const*, n: i32, m: i32, width: i32, host rows: i32, host blocks: i32)\n"
        "  launch grid(blocks) block(64)\n  assume n == rows * width\n  assume blocks == cdiv(rows * width, 64)\n"
        "  assume m % width == 0\n  assume m < n\n  y[0] = x[0]\n"
    )
    assert _with_equals(names, kernel) == all_
