"""unroll on serial and parallel loops."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.passes.loops import unroll
from tests.passes.checks import applied, body_of, differs, refused

DOT = parse_kernel("""\
kernel dot(out: f32* restrict, a: f32 const* restrict, d: i32, host n: i32)
  par row in 0..n @ [block.x]
    par i in 0..d @ [thread.x 4, seq]
      var s: f32 = 0.0
      for k in 0..4
        s += a[row * d + i] * k
      out[row * d + i] = s
""")

SIZES = [{"n": n, "d": d} for n in (1, 3) for d in (1, 7, 8, 9, 13)]


def test_before_and_after() -> None:
    k = applied(DOT, "unroll{loop=k factor=$U} | unroll{loop=i factor=$W:1,2}")
    assert (
        body_of(k)
        == """\
  knob $U in {1, 2, 4, 8, 16} default 4 owner "unroll" doc "iterations per trip"
  knob $W in {1, 2} default 2 owner "unroll" doc "iterations per trip"
  par row in 0..n @ [block.x]
    par i in 0..d @ [thread.x 4, unroll $W, seq]
      var s: f32 = 0.0
      for k in 0..4 unroll $U
        s += a[row * d + i] * k
      out[row * d + i] = s
"""
    )


@pytest.mark.parametrize("u", [1, 2, 8])
def test_meaning_stays(u: int) -> None:
    k = applied(DOT, "unroll{loop=i factor=$U} | unroll{loop=k factor=2}")
    assert differs(DOT, k, SIZES, knobs={"U": u}) is None


def test_an_existing_level_is_replaced_and_full_is_zero() -> None:
    k = applied(DOT, "unroll{loop=i factor=2} | unroll{loop=i factor=4} | unroll{loop=k factor=full}")
    assert "thread.x 4, unroll 4, seq]" in body_of(k) and "for k in 0..4 unroll\n" in body_of(k)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("unroll{loop=q}", "E-PLACE"),
        ("unroll{loop=array:a}", "E-PLACE"),
        ("unroll{loop=k factor=0}", "E-UNROLL-FACTOR"),
        ("unroll{loop=k factor=1000}", "E-UNROLL-FACTOR"),
        ("unroll{loop=k factor=d}", "E-UNROLL-FACTOR"),
        ("unroll{loop=i factor=full}", "E-UNROLL-FULL"),
    ],
)
def test_refusals(script: str, code: str) -> None:
    assert refused(DOT, script).code == code


def test_full_needs_a_known_trip_count() -> None:
    k = parse_kernel("kernel k(out: f32*, n: i32)\n  for i in 0..n\n    out[i] = 0.0\n")
    got = refused(k, "unroll{loop=i factor=full}")
    assert got.code == "E-UNROLL-FULL" and "n" in got.why and got.locs[0].line == 2
    assert "unroll" in body_of(applied(k, "specialize{n=4} | unroll{loop=i factor=full}"))


def test_a_wrong_version_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizing the last level too, so that the range is no longer covered."""
    from ktc.ir.nodes import Level, i32

    monkeypatch.setattr(unroll, "with_unroll", lambda dist, n: (*dist[:-1], Level("unroll", n), Level("seq", i32(1))))
    k = applied(DOT, "unroll{loop=i factor=2}")
    assert differs(DOT, k, SIZES) is not None


def test_short_nests_may_be_written_out_whole() -> None:
    k = parse_kernel("""\
kernel k(a: f32*, n: i32 range 1..64)
  launch grid(1) block(16)
  par t in 0..16 @ [thread.x 16]
    for i in 0..15
      for j in 0..i
        a[t * 16 + i] -= a[j]
    for long in 0..n
      for j in 0..4
        a[t * 16] += a[long] * j
    for alone in 0..8
      a[t] += 1.0
""")
    whole = [str(s.step) for s in unroll.Unroll().sites(k) if "full" in str(s.step)]
    assert whole == ["unroll{loop=i factor=full}"]
    assert "for i in 0..15 unroll\n" in body_of(applied(k, whole[0]))
