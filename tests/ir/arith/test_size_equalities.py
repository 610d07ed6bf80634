"""A launch over the sizes that its kernel's code speaks of, by what is known to be equal."""

from __future__ import annotations

import pytest

from ktc.ir.arith.size_equalities import equalities, launched_alike
from ktc.ir.text import parse_kernel, print_expr

KERNEL = """
kernel k(y: f32*, n: i32, width: i32, host rows: i32, host blocks: i32)
  launch grid(blocks, 2) block(64)
{assumed}
  let i: i32 = (blockIdx.x * 64_u32 + threadIdx.x) as i32
  if i < n
    y[i] = f32(i / width)
"""
ELEMENTS, BLOCKS = "n == rows * width", "blocks == cdiv(rows * width, 64)"


@pytest.mark.parametrize(
    ("assumed", "grid"),
    [
        ((ELEMENTS, BLOCKS), "cdiv(n, 64)"),
        ((BLOCKS,), None),
        ((ELEMENTS, "blocks == cdiv(rows * width + rows, 64)"), None),
        (("blocks == cdiv(n, 64)",), "cdiv(n, 64)"),
    ],
)
def test_blocks_for_a_product_that_a_parameter_is(assumed: tuple[str, ...], grid: str | None) -> None:
    kernel = parse_kernel(KERNEL.format(assumed="\n".join(f"  assume {a}" for a in assumed)))
    launch = launched_alike(kernel, equalities(kernel))
    assert (None if launch is None else print_expr(launch.grid[0])) == grid
