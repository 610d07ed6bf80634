"""Loops that go round once at most, whatever the arguments: no instance is looked for in which they do so twice."""

import pytest

from ktc.ir.text import parse_kernel
from ktc.search.verification.integers.ranges import single_rounds

NAMES = {"n": (1, 256), "m": (1, 1024), "k": (-4, 512)}


@pytest.mark.parametrize(
    ("loop", "single"),
    [
        ("for i: i32 = i32(threadIdx.x); i < i32(gridDim.y); i + 256", True),
        ("for i: i32 = i32(threadIdx.x); i < i32(gridDim.y); i + 7", False),
        ("for i: i32 = i32(threadIdx.x); i < i32(gridDim.y); i + 8", True),
        ("for i: i32 = 0; i < n; i + 256", True),
        ("for i: i32 = 0; i < m; i + 256", False),
        ("for i: i32 = 0; i < 1; i + k", False),
        ("for i: i32 = m - 1; i < m; i + 1", False),
        ("for i: i32 = 0; i < 8; i * 2", False),
    ],
)
def test_rounds(loop: str, single: bool) -> None:
    k = parse_kernel(
        f"kernel k(y: f32*, n: i32, m: i32, k: i32)\n  launch grid(m, 8) block(256)\n  {loop}\n    y[i] = 1.0\n"
    )
    assert bool(single_rounds(k, NAMES)) == single


def test_what_a_guard_says_counts_where_it_holds() -> None:
    text = (
        "kernel k(y: f32*, n: i32, m: i32, k: i32)\n  launch grid(m) block(256)\n  if {guard}\n"
        "    for i: i32 = 0; i < j; i + 16\n      y[i] = 1.0\n"
    )
    head = "  let j: i32 = i32(threadIdx.x)\n  if"
    found = [
        len(single_rounds(parse_kernel(text.format(guard=g).replace("  if", head)), NAMES))
        for g in ("j < 17", "j < 18")
    ]
    assert found == [1, 0]
