"""Lowering moves loads up past stores to buffers that are stated to lie apart, and past no others."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.lowering import materialise
from tests.passes.checks import differs

COPIES = """\
kernel k(a: f32* {}, b: f32 const*, c: f32* {}, n: i32)
  par i in 0..n @ [unroll 2, thread.x 8, block.x]
    a[i] = b[i]
    c[i] = b[i + n] * 2.0
"""


def copies(a: str, c: str) -> Kernel:
    return parse_kernel(COPIES.format(a, c))


@pytest.mark.parametrize(
    ("a", "c", "early"), [("noalias", "", True), ("restrict", "", True), ("", "noalias", False), ("", "", False)]
)
def test_loads_come_before_stores_elsewhere(a: str, c: str, early: bool) -> None:
    text = print_kernel(materialise(copies(a, c)))
    assert (text.index("b[") < text.rindex("= b[") < text.index("a[")) == early, text


def test_the_meaning_stays() -> None:
    for a in ("noalias", ""):
        k = copies(a, "noalias")
        assert differs(k, k, [{"n": n} for n in (1, 15, 16, 33)]) is None
