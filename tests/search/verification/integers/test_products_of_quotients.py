"""``x / (a b) * a`` is known in two ways: it is at most x, and a product of what its factors are."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.search.verification.integers import launchable
from ktc.search.verification.integers.intervals import Scope

PLANES = parse_kernel("""\
kernel planes(y: f32*, count: i32, c: i32, h: i32)
  launch grid(1, 1, count / (c * h) * c) block(32)
  y[blockIdx.z * h] = 1.0
""")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"count": (1 << 20, 1 << 20), "c": (32, 32), "h": (1024, 1024)}, (1024, 1024)),
        ({"count": (0, 1 << 20), "c": (1, 1 << 15), "h": (1, 1 << 15)}, (0, 1 << 20)),
        ({"count": (0, 1 << 20), "c": (32, 32), "h": (1024, 4096)}, (0, 1024)),
    ],
)
def test_the_narrower_of_both_holds(names: dict[str, tuple[int, int]], expected: tuple[int, int]) -> None:
    assert Scope(PLANES, {}, names).of(PLANES.launch.grid[2]) == expected


def test_a_launch_of_known_sizes_is_judged_by_them() -> None:
    """A million elements in planes of a thousand: a thousand blocks along z, not a million."""
    original = PLANES.with_(launch=parse_kernel(PLAIN).launch)
    sizes = {"count": (1 << 20, 1 << 20), "c": (32, 32), "h": (1024, 1024)}
    assert launchable.impossible(original, PLANES, sizes) == ""
    sizes |= {"h": (8, 8)}
    assert "grid.z of the launch" in str(launchable.impossible(original, PLANES, sizes))


PLAIN = """\
kernel planes(y: f32*, count: i32, c: i32, h: i32)
  launch grid(count / 32) block(32)
  y[blockIdx.x] = 1.0
"""
