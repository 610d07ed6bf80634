"""strength-reduce and narrow-index: integer arithmetic made cheaper."""

from __future__ import annotations

import pytest

from ktc.ir.arith import Facts
from ktc.ir.nodes import Binary, Const
from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.scalar import narrow_index
from tests.passes.checks import applied, body_of, differs, refused

TILED = parse_kernel("""\
kernel k(out: f32* restrict, a: f32 const* restrict, n: i32, d: i32)
  launch grid(cdiv(n, 64)) block(64)
  let t: i32 = (blockIdx.x * 64_u32 + threadIdx.x) as i32
  if t < n
    let q: i32 = t / 8
    let r: i32 = t % 8
    var s: f32 = 0.0
    for k in 0..d
      s += a[k * n + q * 8 + r]
    out[t] = s
""")
ROWS = parse_kernel("""\
kernel k(out: f32* restrict, a: f32 const* restrict, n: i64, d: i64)
  par row: i64 in 0_i64..n @ [block.x]
    let start: i64 = row * d
    par i: i64 in 0_i64..d @ [thread.x 8, seq]
      out[start + i] = a[start + i] * f32(i)
""")
SIZES = [{"n": n, "d": d} for n in (1, 7, 9) for d in (1, 5, 13)]


def test_strength_reduce_before_and_after() -> None:
    k = applied(TILED, "strength-reduce")
    assert (
        body_of(k)
        == """\
  launch grid(cdiv(n, 64)) block(64)
  let t: i32 = blockIdx.x * 64_u32 + threadIdx.x
  if t < n
    let q: i32 = t >> 3
    let r: i32 = t & 7
    var s: f32 = 0.0
    var k_n: u32 = 0_u32
    for k in 0..d
      s += a[i32(k_n) + q * 8 + r]
      k_n += u32(n)
    out[t] = s
"""
    )
    assert differs(TILED, k, SIZES, lower=False) is None


def test_what_may_be_negative_keeps_its_division() -> None:
    k = parse_kernel("kernel k(out: i32*, n: i32)\n  launch grid(1) block(1)\n  out[0] = n / 8 + n % 8\n")
    assert refused(k, "strength-reduce").code == "E-STRENGTH-NOTHING"
    assert refused(k, "strength-reduce{what=multiplication}").code == "E-STRENGTH-WHAT"


def test_a_counter_that_a_continue_skips_keeps_its_product() -> None:
    text = print_kernel(TILED).replace("      s += a", "      if a[k] > 3.0\n        continue\n      s += a")
    k = parse_kernel(text)
    body = body_of(applied(k, "strength-reduce"))
    assert "k_n" not in body and ">> 3" in body


def test_a_wrong_strength_reduce_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks taken for values that may be negative: -1 % 8 is -1, -1 & 7 is 7."""
    k = parse_kernel(
        "kernel k(out: i32*, n: i32)\n  launch grid(1) block(32)\n  let t: i32 = threadIdx.x as i32 - 9\n"
        "  out[threadIdx.x] = t % 8 + t / 8\n"
    )
    assert refused(k, "strength-reduce").code == "E-STRENGTH-NOTHING"
    monkeypatch.setattr(Facts, "never_negative", lambda self, e: True)
    assert differs(k, applied(k, "strength-reduce"), [{"n": 4}], lower=False) is not None


def test_what_the_launcher_computes_keeps_its_divisions() -> None:
    k = parse_kernel(
        "kernel k(out: i32*, n: i32 range 1..1000)\n  par b in 0..(n + 255) / 256 @ [block.x]\n"
        "    par t in 0..256 @ [thread.x 256]\n      out[b * 256 + t] = t\n"
    )
    assert refused(k, "strength-reduce").code == "E-STRENGTH-NOTHING"


def test_narrow_index_before_and_after() -> None:
    k = applied(ROWS, "narrow-index")
    assert (
        body_of(k)
        == """\
  assume max(d, 1_i64) * max(n, 1_i64) + 1_i64 + max(d, 1_i64) <= 2130706431_i64 origin guessed
  assume max(n, 1_i64) <= 2130706431_i64 origin guessed
  par row in 0..n @ [block.x]
    let start: i32 = row * d as i32
    par i in 0..d @ [thread.x 8, seq]
      out[start + i] = a[start + i] * f32(i as i64)
"""
    )
    assert differs(ROWS, k, SIZES) is None


def test_known_ranges_need_no_guard_and_refuse_what_does_not_fit() -> None:
    text = print_kernel(ROWS)
    small = parse_kernel(text.replace("n: i64, d: i64", "n: i64 range 1..1000, d: i64 range 1..4096"))
    assert "assume" not in body_of(applied(small, "narrow-index"))
    large = parse_kernel(text.replace("n: i64, d: i64", "n: i64 range 100000..200000, d: i64 range 65536..65536"))
    assert refused(large, "narrow-index").code == "E-NARROW-RANGE"


def test_data_dependent_indices_stay() -> None:
    k = parse_kernel(
        "kernel k(out: f32*, at: i64 const*, n: i32)\n  par i in 0..n @ [thread.x 8, seq]\n    out[at[i]] = 1.0\n"
    )
    assert refused(k, "narrow-index").code == "E-NARROW-NOTHING"


def test_a_parameter_that_the_kernel_assigns_bounds_nothing() -> None:
    k = parse_kernel("kernel k(out: f32*, n: i64)\n  n = n * 4096_i64\n  out[n] = 1.0\n")
    assert refused(k, "narrow-index").code == "E-NARROW-NOTHING"


def test_a_wrong_narrow_index_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropping a term on the way to 32 bits."""
    real = narrow_index._Narrowing._to32

    def wrong(self, e):
        if isinstance(e, Binary) and e.op == "+":
            return real(self, e.a)
        return real(self, e)

    monkeypatch.setattr(narrow_index._Narrowing, "_to32", wrong)
    assert differs(ROWS, applied(ROWS, "narrow-index"), SIZES) is not None


def test_bounds_hold_partial_results() -> None:
    """The bound of ``row * d`` is over the sizes, at least 1 each: an empty row hides no overflow of the rest."""
    k = applied(ROWS, "narrow-index")
    guard = k.assumptions[0].expr
    assert isinstance(guard, Binary) and isinstance(guard.b, Const) and guard.b.value == narrow_index.LIMIT
