"""linearise: loops right inside each other as one, which has one axis of blocks."""

from __future__ import annotations

import pytest

from ktc.ir.text import parse_kernel
from ktc.passes.core.catalogue import PASSES
from tests.passes.checks import applied, body_of, differs, refused

NEST = """\
kernel k(y: f32* noalias, x: f32 const* noalias, a: i32, b: i32, c: i32)
  launch grid(a, b) block(32)
  par i in 0..a @ [block.x]
    par j in 0..b @ [block.y]
      par t in 0..c @ [thread.x 32, seq]
        y[(i * b + j) * c + t] = x[t * a + i] + f32(j)
"""
SIZES = [{"a": a, "b": b, "c": c} for a, b, c in ((1, 1, 1), (2, 3, 5), (4, 2, 33), (0, 2, 2), (2, 0, 2))]


def test_two_loops_are_one() -> None:
    k = parse_kernel(NEST)
    assert [str(s.step) for s in PASSES["linearise"].sites(k)] == ["linearise{loops=i,j}"]
    after = applied(k, "linearise{loops=i,j}")
    assert body_of(after).split("block(32)\n")[1].splitlines()[:4] == [
        "  par i_j in 0..a * b @ [block.x]",
        "    var j: i32 = i_j % b",
        "    var i: i32 = i_j / b",
        "    par t in 0..c @ [thread.x 32, seq]",
    ]
    assert differs(k, after, SIZES) is None


def test_three_loops_are_one_and_a_thread_may_have_each() -> None:
    k = parse_kernel(NEST)
    after = applied(k, "linearise{loops=i,j,t} | distribute{loop=i_j_t map=[thread.x 8, block.x]}")
    assert differs(k, after, SIZES) is None


@pytest.mark.parametrize(
    ("old", "new", "loops", "code"),
    [
        ("0..b", "0..i + 1", "i,j", "E-LINEAR-BOUNDS"),
        ("0..b", "1..b", "i,j", "E-LINEAR-BOUNDS"),
        ("    par j", "    let n: i32 = i + 1\n    par j", "i,j", "E-LINEAR-NEST"),
        ("", "", "i,t", "E-LINEAR-NEST"),
        ("", "", "i", "E-LINEAR-LOOPS"),
    ],
)
def test_refusals(old: str, new: str, loops: str, code: str) -> None:
    assert refused(parse_kernel(NEST.replace(old, new)), f"linearise{{loops={loops}}}").code == code


SERIAL = """\
kernel k(y: f32* noalias, x: f32 const* noalias, a: i32, b: i32)
  launch grid(1) block(1)
  par t in 0..1 @ [thread.x 1]
    var sum: f32 = 0.0
    for i in 0..a
      let at: i32 = i * 7 + 1
      for j in 0..b step 3
        sum = sum * 2.0 + x[at * 64 + j]
    y[0] = sum
"""
PAIRS = [{"a": a, "b": b} for a, b in ((1, 1), (2, 3), (3, 7), (0, 2), (2, 0))]


def test_serial_loops_keep_their_order_and_names_between_them_go_inside() -> None:
    k = parse_kernel(SERIAL)
    after = applied(k, "linearise{loops=i,j}")
    assert body_of(after).split("sum: f32 = 0.0\n")[1].splitlines()[:5] == [
        "    for i_j in 0..a * cdiv(b, 3)",
        "      var j: i32 = i_j % cdiv(b, 3) * 3",
        "      var i: i32 = i_j / cdiv(b, 3)",
        "      let at: i32 = i * 7 + 1",
        "      sum = sum * 2.0 + x[at * 64 + j]",
    ]
    assert differs(k, after, PAIRS) is None


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("i * 7 + 1", "i32(sum)", "E-LINEAR-NEST"),  # which the loop inside changes
        ("      let at: i32 = i * 7 + 1\n", "      sum += 1.0\n      let at: i32 = 1\n", "E-LINEAR-NEST"),
        ("0..b step 3", "0..i + 1 step 3", "E-LINEAR-BOUNDS"),
        ("0..b step 3", "1..b step 3", "E-LINEAR-BOUNDS"),
        ("+ x[at * 64 + j]", "+ x[at * 64 + j]\n        if sum > 100.0\n          break", "E-LINEAR-BOUNDS"),
    ],
)
def test_refusals_of_serial_loops(old: str, new: str, code: str) -> None:
    assert refused(parse_kernel(SERIAL.replace(old, new)), "linearise{loops=i,j}").code == code
