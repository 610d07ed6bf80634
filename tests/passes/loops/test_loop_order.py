"""interchange, fuse, fission, unroll-and-jam: what changes the order of iterations."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel
from ktc.passes.loops import fission, fuse, interchange, unroll_and_jam
from tests.passes.checks import applied, body_of, differs, refused

HEAD = "kernel k(a: f32* restrict, b: f32* restrict, c: f32* restrict, n: i32, m: i32)\n"
SIZES = [{"n": n, "m": m} for n in (1, 2, 7, 8, 9) for m in (1, 5, 13)]


def kernel(body: str, head: str = HEAD) -> Kernel:
    launch = "" if " par " in body else "  launch grid(1) block(1)\n"  # one thread runs what is serial
    return parse_kernel(head + launch + body)


COLUMNS = kernel("""\
  par i in 0..n @ [thread.x 4, block.x]
    for k in 0..m
      c[i] = max(c[i], a[k * n + i])
""")
SKEWED = "  for i in 1..n\n    for j in 1..m\n      a[i * m + j] = a[(i - 1) * m + j {}] + 1.0\n"
PIPELINE = kernel("""\
  par i in 0..n @ [thread.x 4, block.x]
    b[i] = 2.0 * a[i]
  par j in 0..n @ [thread.x 4, block.x]
    c[j] = b[j] + a[j]
""")
TWO_SUMS = kernel("""\
  par row in 0..n @ [block.x]
    reduce(+) s: f32 = 0.0 over i in 0..m @ [thread.x 8, seq]
      yield a[row * m + i]
    reduce(max) t: f32 = 0.0 over i in 0..m @ [thread.x 8, seq]
      let v: f32 = a[row * m + i]
      yield v * v
    c[row] = s + t
""")
MATVEC = kernel("""\
  par one in 0..1 @ [block.x]
    for i in 0..n
      var s: f32 = 0.0
      for k in 0..m
        s += a[i * m + k] * b[k]
      c[i] = s
""")
TWO_PARTS = kernel("""\
  par i in 0..n @ [thread.x 4, block.x]
    let x: f32 = a[i]
    b[i] = 2.0 * x
    c[i] = b[i] + x
""")


# -------------------------------------------------------------------------------------------------------- interchange


def test_interchange_before_and_after() -> None:
    k = applied(COLUMNS, "interchange{outer=i inner=k}")
    assert (
        body_of(k)
        == """\
  for k in 0..m
    par i in 0..n @ [thread.x 4, block.x]
      c[i] = max(c[i], a[k * n + i])
"""
    )
    assert differs(COLUMNS, k, SIZES, lower=False) is None
    assert differs(COLUMNS, applied(COLUMNS, "interchange{outer=i} | interchange{outer=k}"), SIZES) is None


def test_interchange_of_a_serial_nest_needs_its_dependences_forwards() -> None:
    straight, left = kernel(SKEWED.format("- 1")), kernel(SKEWED.format("+ 1"))
    assert differs(straight, applied(straight, "interchange{outer=i}"), SIZES, lower=False) is None
    got = refused(left, "interchange{outer=i}")
    assert got.code == "E-INTERCHANGE-DEPENDENCE" and got.locs


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("  for i in 0..n\n    a[i] = 0.0\n", "E-INTERCHANGE-NEST"),
        ("  for i in 0..n\n    for j in 0..i\n      a[i * m + j] = 0.0\n", "E-INTERCHANGE-BOUNDS"),
        ("  var s: f32 = 0.0\n  for i in 0..n\n    for j in 0..m\n      s = s * 2.0 + a[j]\n", "E-INTERCHANGE-SCALAR"),
        ("  for i in 0..n\n    for j in 0..m\n      if a[j] > 1.0\n        break\n", "E-INTERCHANGE-SYNC"),
        ("  for i in 0..n\n    for j in 0..m\n      a[i32(b[i]) + j] = 1.0\n", "E-INTERCHANGE-DEPENDENCE"),
    ],
)
def test_interchange_refusals(body: str, code: str) -> None:
    assert refused(kernel(body), "interchange{outer=i}").code == code


def test_a_wrong_interchange_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interchange, "_backwards", lambda *a, **k: False)
    left = kernel(SKEWED.format("+ 1"))
    assert differs(left, applied(left, "interchange{outer=i}"), SIZES, lower=False) is not None


# --------------------------------------------------------------------------------------------------------------- fuse


def test_fuse_before_and_after() -> None:
    k = applied(PIPELINE, "fuse{first=i second=j}")
    assert (
        body_of(k)
        == """\
  par i in 0..n @ [thread.x 4, block.x]
    b[i] = 2.0 * a[i]
    c[i] = b[i] + a[i]
"""
    )
    assert differs(PIPELINE, k, SIZES) is None


def test_fuse_joins_reductions() -> None:
    k = applied(TWO_SUMS, "fuse{first=i}")
    assert "reduce(+) s: f32 = 0.0, (max) t: f32 = 0.0 over i in 0..m" in body_of(k)
    assert differs(TWO_SUMS, k, SIZES) is None


def test_fuse_of_serial_loops_may_look_back() -> None:
    back = kernel("  for i in 0..n\n    a[i] = b[i]\n  for j in 0..n\n    c[j] = a[max(j - 1, 0)] + a[j]\n")
    assert refused(back, "fuse{first=i}").code == "E-FUSE-DEPENDENCE"  # the maximum is not affine
    back = kernel("  for i in 1..n\n    a[i] = b[i]\n  for j in 1..n\n    c[j] = a[j - 1] + a[j]\n")
    assert differs(back, applied(back, "fuse{first=i}"), SIZES, lower=False) is None


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("  for i in 0..n\n    a[i] = 0.0\n", "E-FUSE-ADJACENT"),
        ("  for i in 0..n\n    a[i] = 0.0\n  for j in 0..m\n    b[j] = 0.0\n", "E-FUSE-RANGE"),
        ("  for i in 0..n\n    a[i] = 0.0\n  par j in 0..n @ [thread.x 4]\n    b[j] = 0.0\n", "E-FUSE-KIND"),
        (
            "  par i in 0..n @ [thread.x 4]\n    a[i] = 0.0\n  par j in 0..n @ [thread.x 8]\n    b[j] = 0.0\n",
            "E-FUSE-DISTRIBUTION",
        ),
        ("  for i in 0..n\n    a[i] = b[i]\n  for j in 0..n\n    c[j] = a[j + 1]\n", "E-FUSE-DEPENDENCE"),
        ("  for i in 0..n\n    a[i] = b[i]\n  for j in 0..n\n    c[j] = a[n - 1 - j]\n", "E-FUSE-DEPENDENCE"),
        (
            "  var s: f32 = 0.0\n  for i in 0..n\n    s += a[i]\n  for j in 0..n\n    c[j] = s\n",
            "E-FUSE-SCALAR",
        ),
        ("  for i in 0..n\n    break\n  for j in 0..n\n    c[j] = 0.0\n", "E-FUSE-SYNC"),
    ],
)  # fmt: skip
def test_fuse_refusals(body: str, code: str) -> None:
    assert refused(kernel(body), "fuse{first=i}").code == code


def test_fuse_believes_in_aliases() -> None:
    head = HEAD.replace(" restrict", "")
    k = kernel("  for i in 0..n\n    a[i] = b[i]\n  for j in 0..n\n    c[j] = 1.0\n", head)
    assert refused(k, "fuse{first=i}").code == "E-FUSE-DEPENDENCE"


def test_a_wrong_fuse_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse, "_check_dependence", lambda *a: None)
    k = kernel("  for i in 0..n\n    a[i] = b[i]\n  for j in 0..n\n    c[j] = a[j + 1]\n")
    assert differs(k, applied(k, "fuse{first=i}"), SIZES, lower=False) is not None


# ------------------------------------------------------------------------------------------------------------ fission


def test_fission_before_and_after() -> None:
    k = applied(TWO_PARTS, "fission{loop=i at=2}")
    assert (
        body_of(k)
        == """\
  par i in 0..n @ [thread.x 4, block.x]
    let x: f32 = a[i]
    b[i] = 2.0 * x
  par i_1 in 0..n @ [thread.x 4, block.x]
    let x_1: f32 = a[i_1]
    c[i_1] = b[i_1] + x_1
"""
    )
    assert differs(TWO_PARTS, k, SIZES) is None
    assert differs(TWO_PARTS, applied(TWO_PARTS, "fission{loop=i at=2} | fuse{first=i}"), SIZES) is None


STATED = """\
kernel k(a: f32* {}, b: f32 const*, c: f32* restrict, n: i32, m: i32)
  launch grid(1) block(1)
  for i in 0..n
    var v: f32 = b[i]
    a[i] = v + 1.0
    c[i] = v * 2.0
"""


def test_fission_knows_of_buffers_that_are_stated_to_lie_apart() -> None:
    """``b`` is loaded again behind the store to ``a``, which overlaps no other buffer."""
    k = parse_kernel(STATED.format("noalias"))
    assert differs(k, applied(k, "fission{loop=i at=2}"), SIZES, lower=False) is None
    assert refused(parse_kernel(STATED.format("")), "fission{loop=i at=2}").code == "E-FISSION-SCALAR"


@pytest.mark.parametrize("more", ["", "b[i] = v"])
def test_fission_reads_what_the_first_part_has_stored(more: str) -> None:
    """``b`` is overwritten before the second part could load it again: ``v`` is in ``a`` still."""
    k = kernel(
        f"  for i in 0..n\n    var v: f32 = b[i]\n    b[i] = 0.0\n    a[i] = v\n    c[i] = v * 2.0\n    {more}\n"
    )
    done = applied(k, "fission{loop=i at=3}")
    assert "c[i_1] = v_1 * 2.0" in body_of(done) and "v_1: f32 = a[i_1]" in body_of(done)
    assert differs(k, done, SIZES) is None


@pytest.mark.parametrize(
    "stores",
    [
        "a[i] = v\n    a[i] = 1.0",  # overwritten at once
        "a[i / 2] = v",  # overwritten by the next iteration
        "var at: i32 = i\n    a[at] = v\n    at = at + 1",  # where it was is known no more
        "a[i] = v * 3.0",  # something else is stored
    ],
)
def test_fission_reads_nothing_else_than_what_was_stored(stores: str) -> None:
    k = kernel(f"  for i in 0..n\n    var v: f32 = b[i]\n    b[i] = 0.0\n    {stores}\n    c[i] = v * 2.0\n")
    at = 3 + stores.count("\n")
    assert refused(k, f"fission{{loop=i at={at}}}").code in ("E-FISSION-SCALAR", "E-FISSION-DEPENDENCE")


def test_fission_of_a_serial_loop() -> None:
    k = kernel("  for i in 0..n\n    b[i] = a[i] * 2.0\n    c[i] = b[i] + a[i]\n")
    assert differs(k, applied(k, "fission{loop=i at=1}"), SIZES, lower=False) is None


@pytest.mark.parametrize(
    ("body", "at", "code"),
    [
        ("  for i in 0..n\n    a[i] = 0.0\n", "1", "E-FISSION-AT"),
        ("  for i in 0..n\n    a[i] = 0.0\n    b[i] = 0.0\n", "2", "E-FISSION-AT"),
        ("  for i in 1..n\n    b[i] = a[i - 1]\n    a[i] = b[i] + 1.0\n", "1", "E-FISSION-DEPENDENCE"),
        ("  for i in 0..n\n    var s: f32 = 0.0\n    s += a[i]\n    b[i] = s\n", "2", "E-FISSION-SCALAR"),
        ("  for i in 0..n\n    let s: f32 = a[i]\n    a[i] = 0.0\n    b[i] = s\n", "2", "E-FISSION-SCALAR"),
        ("  for i in 0..n\n    a[i] = 0.0\n    break\n", "1", "E-FISSION-SYNC"),
    ],
)
def test_fission_refusals(body: str, at: str, code: str) -> None:
    assert refused(kernel(body), f"fission{{loop=i at={at}}}").code == code


def test_a_wrong_fission_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fission, "_check_order", lambda *a: None)
    k = kernel("  for i in 1..n\n    b[i] = a[i - 1]\n    a[i] = b[i] + 1.0\n")
    assert differs(k, applied(k, "fission{loop=i at=1}"), SIZES, lower=False) is not None


# ----------------------------------------------------------------------------------------------------- unroll-and-jam


def test_unroll_and_jam_before_and_after() -> None:
    k = applied(MATVEC, "unroll-and-jam{loop=i factor=$U:1,2,4}")
    assert (
        body_of(k).split('together"\n')[1]
        == """\
  par one in 0..1 @ [block.x]
    par i in 0..n @ [unroll $U, seq]
      var s: f32 = 0.0
      for k in 0..m
        s += a[i * m + k] * b[k]
      c[i] = s
"""
    )
    for u in (1, 2, 4):
        assert differs(MATVEC, k, SIZES, knobs={"U": u}) is None


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("  for i = n; i > 0; i - 1\n    a[i] = 0.0\n", "E-JAM-FORM"),
        ("  for i in 1..n\n    a[i] = a[i - 1]\n", "E-JAM-DEPENDENCE"),
        ("  var s: f32 = 0.0\n  for i in 0..n\n    s += a[i]\n", "E-JAM-SCALAR"),
        ("  for i in 0..n\n    if a[i] > 0.0\n      break\n", "E-JAM-SYNC"),
    ],
)
def test_unroll_and_jam_refusals(body: str, code: str) -> None:
    assert refused(kernel(body), "unroll-and-jam{loop=i}").code == code


def test_a_wrong_unroll_and_jam_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unroll_and_jam, "iterations_independent", lambda *a: True)
    k = kernel("  par one in 0..1 @ [block.x]\n    for i in 1..n\n      a[i] = a[i - 1] + 1.0\n      b[i] = a[i]\n")
    wrong = applied(k, "unroll-and-jam{loop=i factor=4} | fission{loop=i at=1}")
    assert differs(k, wrong, SIZES) is not None or differs(k, applied(k, "unroll-and-jam{loop=i factor=4}"), SIZES)
