"""The first update of an integer that starts at the neutral element is an assignment, if nothing came before."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.lowering.first_updates import with_first_updates

KERNEL = """
kernel k(x: i32 const* restrict, y: i32* restrict, f: f32 const* restrict, n: i32)
  launch grid(1) block(32)
  {declared}
  {updated}
  y[threadIdx.x] = v
"""
LEAST = "var v: i32 = 2147483647"
CASES = {
    "at once": (LEAST, "v = min(v, x[0])", "v = x[0]"),
    "in a branch": (LEAST, "if n > 3\n    v = min(v, x[0])", "v = x[0]"),
    "a sum": ("var v: i32 = 0", "v += x[0]", "v = x[0]"),
    "from another number": ("var v: i32 = 7", "v = min(v, x[0])", "v = min(v, x[0])"),
    "again and again": (LEAST, "for i in 0..n\n    v = min(v, x[i])", "v = min(v, x[i])"),
    "of itself": (LEAST, "v = min(v, v + x[0])", "v = min(v, v + x[0])"),
    "behind a use": (LEAST, "y[n] = v\n  v = min(v, x[0])", "v = min(v, x[0])"),
    "in one of two branches": (LEAST, "if n > 3\n    v = min(v, x[0])\n  else\n    v = 3", "v = min(v, x[0])"),
}


@pytest.mark.parametrize(("declared", "updated", "want"), CASES.values(), ids=CASES.keys())
def test_first_updates(declared: str, updated: str, want: str) -> None:
    kernel = parse_kernel(KERNEL.format(declared=declared, updated=updated))
    lines = print_kernel(kernel.with_(body=with_first_updates(kernel.body))).splitlines()
    assert want in [line.strip() for line in lines]


def test_floats_keep_their_neutral_element() -> None:
    """0.0 + -0.0 is 0.0, and the maximum of -inf and a NaN is -inf."""
    kernel = parse_kernel(
        "kernel k(f: f32 const* restrict, y: f32* restrict)\n  launch grid(1) block(32)\n"
        "  var v: f32 = 0.0\n  v += f[0]\n  y[0] = v\n"
    )
    assert with_first_updates(kernel.body) is kernel.body
