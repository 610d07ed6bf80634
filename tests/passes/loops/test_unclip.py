"""unclip: loops over what edges leave of windows, as loops over all taps."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.passes.loops import unclip
from tests.passes.checks import applied, body_of, differs, refused

HEAD = "kernel pool(y: f32* restrict, x: f32 const* restrict, n: i32, k: i32, step: i32, pad: i32)\n"
POOL = f"""\
{HEAD}  par q in 0..n @ [thread.x 8, block.x]
    var s: i32 = q * step - pad
    var e: i32 = min(s + k, n + pad)
    let size: i32 = e - s
    var first: i32 = max(s, 0)
    var last: i32 = min(e, n)
    var t: f32 = 0.0
    for h in first..last
      t += x[h]
    y[q] = t + f32(size)
"""
SIZES = [{"n": n, "k": k, "step": s, "pad": p}
         for n, k, s, p in ((1, 1, 1, 0), (8, 3, 1, 1), (9, 2, 2, 1), (5, 7, 1, 3), (6, 0, 1, 2))]  # fmt: skip


def test_before_and_after() -> None:
    text = body_of(applied(parse_kernel(POOL), "unclip{loop=h}"))
    assert (
        text[text.index("    for h_tap") : text.index("    y[q]")]
        == """\
    for h_tap in 0..k
      let h: i32 = q * step - pad + h_tap
      if h >= 0 && h < n + pad && h < n
        t += x[h]
"""
    )


def test_meaning_stays() -> None:
    k = parse_kernel(POOL)
    assert differs(k, applied(k, "unclip{loop=h}"), SIZES) is None


def test_jumps_leave_the_same_iterations() -> None:
    k = parse_kernel(POOL.replace("      t += x[h]\n", "      if x[h] > 3.0\n        break\n      t += x[h]\n"))
    assert differs(k, applied(k, "unclip{loop=h}"), SIZES) is None


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("for h in first..last", "for h in 0..n", "E-UNCLIP-WINDOW"),
        ("for h in first..last", "for h in first..first + k", "E-UNCLIP-WINDOW"),
        ("for h in first..last", "for h = first; h < last; h + 2", "E-UNCLIP-LOOP"),
        ("      t += x[h]\n", "      t += x[h]\n      last = last - 1\n", "E-UNCLIP-LOOP"),
        ("min(s + k, n + pad)", "min(s + q, n + pad)", "E-UNCLIP-WINDOW"),
    ],
)
def test_refusals(old: str, new: str, code: str) -> None:
    assert refused(parse_kernel(POOL.replace(old, new)), "unclip{loop=h}").code == code


GRADIENT = """\
kernel grad(dx: f32* restrict, dy: f32 const* restrict, n: i32, m: i32, pad: i32 range 0..4)
  par x in 0..n @ [thread.x 8, block.x]
    let h: i32 = x + pad
    let first: i32 = h < 3 ? 0 : (h - 3) / STRIDE + 1
    let last: i32 = min(h / STRIDE + 1, m)
    var t: f32 = 0.0
    for o in first..last
      t += dy[o]
    dx[x] = t
"""
PADDED = [{"n": n, "m": m, "pad": p} for n, m, p in ((1, 1, 0), (1, 2, 2), (9, 9, 1), (12, 5, 0), (5, 9, 2), (3, 0, 1))]


@pytest.mark.parametrize(
    ("stride", "taps", "first", "asked"),
    [
        (1, 3, "x + pad - 2 + o_tap", "o >= 0 && o < m"),
        (2, 2, "(x + pad < 3 ? 0 : (x + pad - 3) / 2 + 1) + o_tap", "o < (x + pad) / 2 + 1 && o < m"),
        (3, 1, "(x + pad < 3 ? 0 : (x + pad - 3) / 3 + 1) + o_tap", "o < (x + pad) / 3 + 1 && o < m"),
        (5, 1, "(x + pad < 3 ? 0 : (x + pad - 3) / 5 + 1) + o_tap", "o < (x + pad) / 5 + 1 && o < m"),
    ],
)
def test_the_windows_over_a_place(stride: int, taps: int, first: str, asked: str) -> None:
    text = GRADIENT.replace("STRIDE", str(stride))
    k = parse_kernel(text if stride > 1 else text.replace("(h - 3) / 1 + 1", "h - 2").replace("h / 1", "h"))
    whole = applied(k, "unclip{loop=o}")
    assert f"for o_tap in 0..{taps}\n      let o: i32 = {first}\n      if {asked}\n" in body_of(whole)
    assert differs(k, whole, PADDED) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(h - 3) / 2", "(h - 4) / 2"),
        ("h < 3", "h < m"),
        ("h / 2 + 1", "h / 2 + 2"),
        ("? 0", "? 1"),
        ("+ 1\n    let", "\n    let"),
    ],
)
def test_what_is_no_window_over_a_place(old: str, new: str) -> None:
    k = parse_kernel(GRADIENT.replace("STRIDE", "2").replace(old, new))
    assert refused(k, "unclip{loop=o}").code == "E-UNCLIP-WINDOW"


def test_an_edge_that_is_forgotten_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unclip, "both", lambda a, b: b)
    k = parse_kernel(POOL)
    assert differs(k, applied(k, "unclip{loop=h}"), SIZES) is not None
