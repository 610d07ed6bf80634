# ruff: noqa: E501
"""licm, cse and simplify."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.passes.scalar import cse, licm, simplify
from ktc.passes.scalar.cse import Cse
from tests.passes.checks import applied, body_of, differs

HEAD = "kernel k(out: f32* restrict, a: f32 const* restrict, n: i32, d: i32)\n  launch grid(1) block(1)\n"
SIZES = [{"n": n, "d": d} for n in (0, 1, 3, 7) for d in (1, 4, 5)]


def kernel(body: str) -> Kernel:
    return parse_kernel(HEAD + body)


def after(script: str, body: str) -> str:
    return body_of(applied(kernel(body), script)).split("block(1)\n")[1]


# -------------------------------------------------------------------------------------------------------------- licm

SCALED = """\
  par row in 0..n @ [seq]
    par i in 0..d @ [seq]
      let base: i32 = row * d
      let scale: f32 = 1.0 / sqrt(d * 2.0)
      let x: f32 = a[base]
      out[base + i] = a[base + i] * scale + x
"""


def test_licm_before_and_after() -> None:
    assert (
        after("licm", SCALED)
        == """\
  let scale: f32 = 1.0 / sqrt(d * 2.0)
  par row in 0..n @ [seq]
    let base: i32 = row * d
    par i in 0..d @ [seq]
      let x: f32 = a[base]
      out[base + i] = a[base + i] * scale + x
"""
    )


def test_licm_of_one_loop() -> None:
    text = after("licm{loop=i}", SCALED)
    assert text.index("par row") < text.index("scale") < text.index("par i")


def test_licm_of_what_is_costly_inside_an_expression() -> None:
    body = "  par i in 0..n @ [seq]\n    if i > 1\n      out[i] = a[i] * (1.0 / sqrt(f32(d / 2))) + a[i] / d + min(d, 3.0)\n"
    assert (
        after("licm", body)
        == """\
  let invariant: f32 = 1.0 / sqrt(f32(d / 2))
  par i in 0..n @ [seq]
    if i > 1
      out[i] = a[i] * invariant + a[i] / d + min(d, 3.0)
"""
    )
    assert differs(kernel(body), applied(kernel(body), "licm"), SIZES) is None


def test_licm_moves_a_division_by_what_its_range_keeps_from_zero() -> None:
    k = parse_kernel(
        "kernel k(out: f32* restrict, n: i32, d: i32 range 1..9)\n  launch grid(1) block(1)\n"
        "  for i in 0..n\n    out[i] = sqrt(f32(n / d)) + i / d\n"
    )
    text = body_of(applied(k, "licm"))
    assert text.index("sqrt(f32(n / d))") < text.index("for i") < text.index("i / d")


@pytest.mark.parametrize(
    "body",
    [
        "  for i in 0..n\n    let q: i32 = d / (n - 1)\n    out[i] = q\n",  # may divide by zero where the loop did not run
        "  for i in 0..n\n    let x: f32 = a[n]\n    out[i] = x\n",
        "  for i in 0..n\n    var x: f32 = 1.0\n    x += 1.0\n    out[i] = x\n",
        "  var y: f32 = 0.0\n  for i in 0..n\n    let x: f32 = y * 2.0\n    y = x + 1.0\n    out[i] = x\n",
        "  for i in 0..n\n    let x: i32 = i + 1\n    out[i] = x\n",
        "  for i in 0..n\n    out[i] = sqrt(f32(n / d)) * sqrt(a[n])\n",
        "  var y: f32 = 0.0\n  for i in 0..n\n    out[i] = sqrt(y)\n    y += 1.0\n",
    ],
)
def test_licm_leaves_what_changes_or_may_fail(body: str) -> None:
    k = kernel(body)
    assert applied(k, "licm").body is k.body
    assert licm.Licm().sites(k) == []


def test_licm_moves_loads_out_of_loops_that_run_and_write_nothing() -> None:
    body = "  for t in 0..n step 4\n    var s: f32 = 0.0\n    for i in t..t + 4\n      let x: f32 = a[t / 4]\n      s += x * b[i]\n    out[t] = s\n"
    k = parse_kernel(HEAD.replace("n: i32,", "b: f32 const* restrict, n: i32,") + body)
    text = body_of(applied(k, "licm"))
    assert text.index("let x") < text.index("for i in"), text
    assert differs(k, applied(k, "licm"), [{"n": n, "d": 1} for n in (0, 4, 8)]) is None


@pytest.mark.parametrize(
    "inner",
    [
        "for i in t..d\n      let x: f32 = a[t]\n      s += x\n",  # may not run
        "for i in t..t + 4\n      let x: f32 = out[t]\n      s += x\n      out[i] = s\n",  # writes what it reads
        "for i in t..t + 4\n      if i > d\n        break\n      let x: f32 = a[t]\n      s += x\n",  # may be left before
    ],
)
def test_licm_leaves_loads_that_may_not_be_there_or_change(inner: str) -> None:
    k = kernel(f"  for t in 0..n step 4\n    var s: f32 = 0.0\n    {inner}    out[t] = s\n")
    assert applied(k, "licm").body is k.body


def test_licm_keeps_the_meaning() -> None:
    k = kernel(SCALED)
    assert differs(k, applied(k, "licm"), SIZES) is None


def test_a_licm_that_ignores_changes_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    k = kernel("  var y: f32 = 0.0\n  for i in 0..n\n    let x: f32 = y * 2.0\n    y = x + 1.0\n    out[i] = x\n")
    monkeypatch.setattr(licm, "assigned", lambda body: set())
    assert differs(k, applied(k, "licm"), SIZES, lower=False) is not None


# --------------------------------------------------------------------------------------------------------------- cse

INDEXED = """\
  for i in 0..n
    let x: f32 = a[i * d + 1]
    let y: f32 = a[i * d + 1 + d]
    out[i * d + 1] = x * y
    if x > 0.0
      out[i * d + 1] = i * d + 1
"""


def test_cse_before_and_after() -> None:
    assert (
        after("cse", INDEXED)
        == """\
  for i in 0..n
    let t: i32 = i * d + 1
    let x: f32 = a[t]
    let y: f32 = a[t + d]
    out[t] = x * y
    if x > 0.0
      out[i * d + 1] = i * d + 1
""".replace("      out[i * d + 1] = i * d + 1\n", "      let t1: i32 = i * d + 1\n      out[t1] = t1\n")
    )


def test_cse_keeps_the_meaning() -> None:
    k = kernel(INDEXED)
    assert differs(k, applied(k, "cse"), SIZES, lower=False) is None


CHANGING = "  var j: i32 = n\n  out[j * d + 1] = 1.0\n  j += 1\n  out[j * d + 1] = 2.0\n"


def test_cse_leaves_values_that_change() -> None:
    k = kernel(CHANGING)
    assert applied(k, "cse").body is k.body and cse.Cse().sites(k) == []


def test_a_cse_that_ignores_changes_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    k = kernel(CHANGING)
    monkeypatch.setattr(cse, "assigned", lambda body: set())
    assert differs(k, applied(k, "cse"), SIZES, lower=False) is not None


# ---------------------------------------------------------------------------------------------------------- simplify


@pytest.mark.parametrize(
    ("before", "result"),
    [
        ("  out[0 + 2 * 3] = 1.0\n", "  out[6] = 1.0\n"),
        ("  let m: i32 = 4\n  for i in 0..m * 2\n    out[i] = 0.0\n", "  for i in 0..8\n    out[i] = 0.0\n"),
        ("  if 1 < 2\n    out[0] = 1.0\n  else\n    out[0] = 2.0\n", "  out[0] = 1.0\n"),
        ("  var x: f32 = a[3]\n  x = 2.0\n  out[0] = 1.0\n", "  out[0] = 1.0\n"),
        ("  if n > 2\n    pass\n  else\n    out[0] = 1.0\n", "  if !(n > 2)\n    out[0] = 1.0\n"),
        ("  for i in 4..4\n    out[i] = 0.0\n", "  pass\n"),
        ("  while false\n    out[0] = 0.0\n", "  pass\n"),
        ("  par i in 0..n @ [seq]\n    if n > 3\n      pass\n", "  pass\n"),
        ("  for i in 0..n\n    out[i] = 1.0\n    break\n    out[i] = 2.0\n", "  for i in 0..n\n    out[i] = 1.0\n    break\n"),
        ("  var x: f32 = foo(n) !write -> f32\n  out[0] = 1.0\n", "  var x: f32 = foo(n) !write -> f32\n  out[0] = 1.0\n"),
        ("  var x: f32 = 1.0\n  raw \"use(x)\" reads(x) writes()\n", "  var x: f32 = 1.0\n  raw \"use(x)\" reads(x) writes()\n"),
        ("  var h: i32 = 0\n  h = atomic add out[0], 1.0\n", "  var h: i32 = 0\n  h = atomic add out[0], 1.0\n"),
        ("  out[1 << (-(1))] = a[4 / (2 - 2)]\n", "  out[1 << -1] = a[4 / 0]\n"),
    ],
)  # fmt: skip
def test_simplify(before: str, result: str) -> None:
    assert after("simplify", before) == result


def test_simplify_keeps_the_meaning() -> None:
    k = kernel(
        "  let two: i32 = 2\n  for i in 0..n\n    var x: f32 = a[i * 1 + 0]\n    if d > 0 && true\n      x = x * two\n    out[i] = x\n"
    )
    assert differs(k, applied(k, "simplify"), SIZES, lower=False) is None


def test_a_simplify_that_propagates_variables_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    k = kernel("  var s: i32 = 0\n  for i in 0..n\n    s += 2\n    out[i] = s\n")
    monkeypatch.setattr(simplify, "assigned", lambda body: set())
    assert differs(k, applied(k, "simplify"), SIZES, lower=False) is not None


def test_cse_leaves_the_shapes_of_arrays() -> None:
    """Part of a type, they are not rewritten: what is repeated in one was found again and again."""
    kernel = parse_kernel("""kernel k(x: f32*, n: i32)
  launch grid(1) block(32)
  array s: shared f32[(2 * n + 16) * (2 * n + 16)] dynamic
  s[threadIdx.x] = x[threadIdx.x]
  x[threadIdx.x] = s[threadIdx.x]
""")
    assert Cse().sites(kernel) == []
