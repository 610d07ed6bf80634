"""part-sums: a loop for each term of what a loop adds up."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.passes.core.catalogue import PASSES
from tests.passes.checks import applied, body_of, differs, refused

HEAD = """\
kernel k(y: f32* noalias, a: f32 const* noalias, b: f32 const* noalias, n: i32, c: f32)
  launch grid(n) block(32)
  par i in 0..n @ [thread.x 32, block.x]
    var s: f32 = 1.0
    for k in 0..n
"""
SIZES = [{"n": n, "c": 2.0} for n in (1, 3, 17)]


def kernel(*lines: str) -> Kernel:
    return parse_kernel(HEAD + "".join(f"      {line}\n" for line in lines) + "    y[i] = s\n")


def test_each_term_has_a_loop_with_what_it_needs() -> None:
    k = kernel("let u: f32 = a[i * n + k]", "let v: f32 = b[k]", "s -= u * v - (b[k * n + i] - c * u)")
    assert [str(s.step) for s in PASSES["part-sums"].sites(k)] == ["part-sums{loop=k}"]
    after = applied(k, "part-sums{loop=k}")
    assert body_of(after).split("s: f32 = 1.0\n")[1] == (
        "    for k in 0..n\n"
        "      let u: f32 = a[i * n + k]\n"
        "      let v: f32 = b[k]\n"
        "      s -= u * v\n"
        "    for k_1 in 0..n\n"
        "      s += b[k_1 * n + i]\n"
        "    for k_2 in 0..n\n"
        "      let u_1: f32 = a[i * n + k_2]\n"
        "      s -= c * u_1\n"
        "    y[i] = s\n"
    )
    assert "reassociates" in after.flags and differs(k, after, SIZES) is None


TWO = """\
kernel k(y: f32* noalias, a: f32 const* noalias, b: f32 const* noalias, n: i32, c: f32)
  launch grid(n) block(32)
  par i in 0..n @ [thread.x 32, block.x]
    var s: f32 = 1.0
    var t: f32 = 2.0
    for k in 0..n
      let u: f32 = a[i * n + k]
      s += u * b[k]
      let v: f32 = b[k * n + i]
      t -= u * v
    y[i] = s * t
"""


def test_each_sum_has_a_loop_with_what_it_needs() -> None:
    k = parse_kernel(TWO)
    after = applied(k, "part-sums{loop=k}")
    assert body_of(after).split("t: f32 = 2.0\n")[1] == (
        "    for k in 0..n\n"
        "      let u: f32 = a[i * n + k]\n"
        "      s += u * b[k]\n"
        "    for k_1 in 0..n\n"
        "      let u_1: f32 = a[i * n + k_1]\n"
        "      let v: f32 = b[k_1 * n + i]\n"
        "      t -= u_1 * v\n"
        "    y[i] = s * t\n"
    )
    assert "reassociates" not in after.flags and differs(k, after, SIZES) is None


@pytest.mark.parametrize(
    "line", ["t -= u * s", "t = t * 0.5 + u", "s = t", "t -= u\n      y[k] = u", "if u > 0.0\n        t -= u"]
)
def test_sums_that_depend_on_each_other_stay(line: str) -> None:
    assert refused(parse_kernel(TWO.replace("t -= u * v", line)), "part-sums{loop=k}").code == "E-PARTS-LOOP"


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (("s += a[k] * b[k]",), "E-PARTS-ONE"),
        (("s += a[k] * b[k] + c",), "E-PARTS-ONE"),  # a term that is read from nowhere
        (("s = a[k] + b[k] * s",), "E-PARTS-LOOP"),
        (("s += a[k] + s * b[k]",), "E-PARTS-LOOP"),
        (("y[k * n + i] = a[k]", "s += a[k] + b[k]"), "E-PARTS-LOOP"),
        (("s += a[k] + b[k]", "y[k * n + i] = s"), "E-PARTS-LOOP"),
    ],
)
def test_what_is_no_sum_of_several_terms_stays(lines: tuple[str, ...], code: str) -> None:
    assert refused(kernel(*lines), "part-sums{loop=k}").code == code
