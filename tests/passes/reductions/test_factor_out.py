"""factor-out: what all terms of a sum are multiplied by, once, after the sum."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.passes.core.catalogue import PASSES
from tests.passes.checks import applied, body_of, differs, refused

HEAD = """\
kernel k(y: f32* noalias, a: f32 const* noalias, b: f32 const* noalias, n: i32, c: f32, d: f32)
  launch grid(n) block(32)
  par i in 0..n @ [thread.x 32, block.x]
    var s: f32 = y[i] * d
    for k in 0..n
"""
SIZES = [{"n": n, "c": 2.0, "d": 3.0} for n in (1, 3, 17)]


def kernel(*lines: str) -> Kernel:
    return parse_kernel(HEAD + "".join(f"      {line}\n" for line in lines) + "    y[i] = s\n")


def test_a_factor_is_multiplied_once_and_the_first_value_read_when_it_is_needed() -> None:
    k = kernel("let u: f32 = a[i * n + k]", "s -= c * u * b[k]")
    assert [str(s.step) for s in PASSES["factor-out"].sites(k)] == ["factor-out{loop=k}"]
    after = applied(k, "factor-out{loop=k}")
    assert body_of(after).split("block.x]\n")[1] == (
        "    var s_sum: f32 = 0.0\n"
        "    for k in 0..n\n"
        "      let u: f32 = a[i * n + k]\n"
        "      s_sum -= u * b[k]\n"
        "    var s: f32 = y[i] * d + c * s_sum\n"
        "    y[i] = s\n"
    )
    assert "reassociates" in after.flags and differs(k, after, SIZES) is None


def test_what_several_terms_share_and_factors_written_on_either_side() -> None:
    k = kernel("s += (c * d) * a[k] * b[k] - d * b[k * n + i] * c")
    after = applied(k, "factor-out{loop=k}")
    assert "s_sum += a[k] * b[k] - b[k * n + i]" in body_of(after) and "c * d * s_sum" in body_of(after)
    assert differs(k, after, SIZES) is None


def test_a_sum_that_is_used_before_keeps_its_place() -> None:
    k = kernel("s += c * a[k]")
    used = parse_kernel(
        HEAD.replace("    for k", "    y[i + n] = s\n    for k").replace("launch grid(n)", "launch grid(n)")
        + "      s += c * a[k]\n    y[i] = s\n"
    )
    assert "s += c * s_sum" in body_of(applied(used, "factor-out{loop=k}"))
    assert "s: f32 = y[i] * d + c * s_sum" in body_of(applied(k, "factor-out{loop=k}"))


def test_reductions_have_their_factors_taken_out_too() -> None:
    k = parse_kernel("""\
kernel k(y: f32* noalias, a: f32 const* noalias, n: i32, c: f32)
  par i in 0..n @ [block.x]
    reduce(+) s: f32 = 1.0 over k in 0..n @ [thread.x 32, seq]
      yield c * a[i * n + k]
    y[i] = s
""")
    after = applied(k, "factor-out{loop=k}")
    assert "yield a[i * n + k]" in body_of(after) and "s: f32 = 1.0 + c * s_sum" in body_of(after)
    assert differs(k, after, [{"n": n, "c": 2.0} for n in (1, 3, 70)]) is None


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (("s += a[k] * b[k]",), "E-FACTOR-NONE"),
        (("s += c * a[k] + b[k]",), "E-FACTOR-NONE"),
        (("s += c * d",), "E-FACTOR-NONE"),  # nothing is left of it
        (("s += b[i] * a[k]",), "E-FACTOR-NONE"),  # memory may change
        (("s += c / a[k]",), "E-FACTOR-NONE"),
        (("s = c * a[k] + c * s",), "E-FACTOR-LOOP"),
        (("y[k * n + i] = a[k]", "s += c * a[k]"), "E-FACTOR-LOOP"),
    ],
)
def test_what_shares_no_factor_stays(lines: tuple[str, ...], code: str) -> None:
    assert refused(kernel(*lines), "factor-out{loop=k}").code == code


SHARED = """\
kernel k(y: f32* noalias, a: f32 const* noalias, b: f32 const* noalias, scale: f32 const* noalias, n: i32)
  launch grid(n) block(32)
  par i in 0..n @ [thread.x 32, block.x]
    var s: f32 = 0.0
    for k in 0..LENGTH
      let weight: f32 = scale[i] * (b[k] + 1.0)
      s += a[i] * weight
    y[i] = s
"""


def test_what_a_factor_reads_is_read_once_in_front_and_names_of_products_are_looked_through() -> None:
    k = parse_kernel(SHARED.replace("LENGTH", "8"))
    after = applied(k, "factor-out{loop=k}")
    text = body_of(after)
    assert "let common: f32 = a[i] * scale[i]" in text and "s_sum += b[k] + 1.0" in text
    assert "var s: f32 = 0.0 + common * s_sum" in text
    assert differs(k, after, [{"n": n} for n in (8, 33)]) is None


def test_nothing_is_read_for_a_loop_that_may_not_run() -> None:
    assert refused(parse_kernel(SHARED.replace("LENGTH", "n - 32")), "factor-out{loop=k}").code == "E-FACTOR-NONE"
