"""distribute: rows that start aligned, and rounds that are whole without guards of their own."""

from __future__ import annotations

import dataclasses

import pytest

from ktc.backends import emit
from ktc.ir.fold import i32
from ktc.ir.interp import equivalent
from ktc.ir.kernel import bind
from ktc.ir.nodes import Binary, If
from ktc.ir.text import parse_kernel
from ktc.ir.verifier import verify
from ktc.ir.walk import map_body, walk
from ktc.passes.lowering import materialise
from tests.passes.checks import applied, arguments, body_of, differs, refused

STENCIL = parse_kernel("""\
kernel sweep(b: f32* restrict, a: f32 const* restrict, ny: i32, nx: i32)
  par y in 1..ny - 1 @ [block.y]
    par x in 1..nx - 1 @ [thread.x 4, block.x]
      b[y * nx + x] = a[y * nx + x - 1] + a[y * nx + x + 1] + a[(y - 1) * nx + x] + a[(y + 1) * nx + x]
""")
SIZES = [{"ny": ny, "nx": nx} for ny, nx in ((1, 1), (2, 5), (3, 3), (4, 4), (5, 9), (6, 10), (9, 13), (10, 34))]
ALIGN = "distribute{loop=x map=[thread.x $T=4, block.x] align=4}"
CUT = "distribute{loop=y map=[unroll $U=2, thread.y $TY=2, block.y] tail=cut}"


def test_before_and_after() -> None:
    body = body_of(applied(STENCIL, f"{ALIGN} | {CUT}"))
    assert (
        body[body.index("  par") :]
        == """\
  par y in 1..ny - 1 @ [unroll $U cut, thread.y $TY, block.y]
    par x in 0..nx - 1 @ [thread.x $T, block.x]
      if x >= 1
        b[y * nx + x] = a[y * nx + x - 1] + a[y * nx + x + 1] + a[(y - 1) * nx + x] + a[(y + 1) * nx + x]
"""
    )


@pytest.mark.parametrize("script", [ALIGN, CUT, f"{ALIGN} | {CUT}", CUT.replace("=2,", "=3,").replace("=2,", "=1,")])
def test_meaning_stays(script: str) -> None:
    after = applied(STENCIL, script)
    assert differs(STENCIL, after, SIZES) is None


def test_two_cut_loops_share_one_question() -> None:
    cut_x = "distribute{loop=x map=[unroll $UX=2, thread.x $T=4, block.x] tail=cut}"
    after = applied(STENCIL, f"{CUT} | {cut_x}")
    text = emit(materialise(bind(after, {})), "cuda").text
    assert text.count("else") == 1 and text.count("if (y + U - 1 < ny - 1 && x + UX - 1 < nx - 1)") == 1, text
    assert differs(STENCIL, after, SIZES) is None


def test_no_guard_is_left_in_a_whole_round() -> None:
    low = materialise(bind(applied(STENCIL, CUT), {}))
    whole = next(s for s in walk(low.body) if isinstance(s, If) and s.orelse)
    assert not any(isinstance(s, If) for s in walk(whole.then))
    assert any(isinstance(s, If) for s in walk(whole.orelse))
    assert verify(low) == []


def test_a_wrong_question_is_caught() -> None:
    """Asking of the iteration before a round's last: an element beyond the range is written."""
    low = materialise(bind(applied(STENCIL, CUT), {}))
    whole = next(s for s in walk(low.body) if isinstance(s, If) and s.orelse)
    assert isinstance(whole.cond, Binary)
    loose = dataclasses.replace(whole, cond=Binary("<", Binary("-", whole.cond.a, i32(1)), whole.cond.b))
    wrong = low.with_(body=map_body(low.body, lambda s: loose if s == whole else s))
    args = [arguments(STENCIL, 600, **s) for s in SIZES]
    assert equivalent(STENCIL, low, args) is None
    assert equivalent(STENCIL, wrong, args) is not None


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (ALIGN.replace("align=4", "align=0"), "E-DIST-ALIGN"),
        (ALIGN.replace("align=4", "align=many"), "E-DIST-ALIGN"),
        (CUT.replace("cut", "off"), "E-ARG-RANGE"),
    ],
)
def test_refusals(script: str, code: str) -> None:
    assert refused(STENCIL, script).code == code


def test_a_start_that_is_not_known_is_not_aligned() -> None:
    kernel = parse_kernel("""\
kernel sweep(b: f32* restrict, a: f32 const* restrict, lo: i32, n: i32)
  par x in lo..n @ [thread.x 4, block.x]
    b[x] = a[x]
""")
    assert refused(kernel, ALIGN).code == "E-DIST-ALIGN"


def test_a_reduction_is_not_aligned() -> None:
    kernel = parse_kernel("""\
kernel total(b: f32* restrict, a: f32 const* restrict, n: i32)
  par r in 0..1 @ [block.x]
    reduce (+) s: f32 = 0.0 over x in 1..n @ [thread.x 32, seq]
      yield a[x]
    b[r] = s
""")
    assert refused(kernel, "distribute{loop=x map=[thread.x 32, seq] align=4}").code == "E-DIST-ALIGN"
