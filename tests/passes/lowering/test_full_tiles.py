"""Tiles that no edge cuts off, in code of their own."""

from __future__ import annotations

import pytest

from ktc.driver.printing import printed
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import If
from ktc.ir.text import parse_kernel
from ktc.ir.walk import walk
from ktc.passes.lowering import full_tiles
from ktc.passes.lowering.full_tiles import with_full_tiles
from ktc.passes.lowering.jammed import jammed
from tests.passes.checks import body_of, differs

HEAD = "kernel k(c: f32* restrict noalias, a: f32 const* restrict noalias, n: i32, m: i32)\n"
TILE = """\
  par t in 0..cdiv(n, 4) @ [block.x]
    array acc: local f32[4, 8]
    par i in 0..min(4, n - t * 4) @ [unroll 2, seq]
      par j in 0..min(8, m) @ [seq]
        acc[i, j] = a[(t * 4 + i) * m + j]
    par i_1 in 0..min(4, n - t * 4) @ [unroll 2, seq]
      par j_1 in 0..min(8, m) @ [seq]
        c[(t * 4 + i_1) * m + j_1] = 2.0 * acc[i_1, j_1]
"""
SIZES = [{"n": n, "m": m} for n, m in ((1, 1), (4, 8), (5, 8), (8, 7), (13, 9))]


def kernel(body: str) -> Kernel:
    return parse_kernel(HEAD + body)


def test_whole_tiles_have_constant_ends_and_edges_run_one_by_one() -> None:
    assert (
        body_of(with_full_tiles(kernel(TILE)))
        == """\
  stems i_1_1: i_1, j_1_1: j_1
  par t in 0..cdiv(n, 4) @ [block.x]
    array acc: f32[4, 8]
    if n - t * 4 >= 4 && m >= 8
      par i in 0..4 @ [unroll 2, seq]
        par j in 0..8 @ [seq]
          acc[i, j] = a[(t * 4 + i) * m + j]
      par i_1 in 0..4 @ [unroll 2, seq]
        par j_1 in 0..8 @ [seq]
          c[(t * 4 + i_1) * m + j_1] = 2.0 * acc[i_1, j_1]
    else
      par i_2 in 0..min(4, n - t * 4) @ [seq]
        par j_2 in 0..min(8, m) @ [seq]
          acc[i_2, j_2] = a[(t * 4 + i_2) * m + j_2]
      par i_1_1 in 0..min(4, n - t * 4) @ [seq]
        par j_1_1 in 0..min(8, m) @ [seq]
          c[(t * 4 + i_1_1) * m + j_1_1] = 2.0 * acc[i_1_1, j_1_1]
"""
    )


@pytest.mark.parametrize("size", SIZES)
def test_the_same_on_awkward_sizes(size: dict[str, int]) -> None:
    k = kernel(TILE)
    assert differs(k, jammed(with_full_tiles(k)), [size], lower=False) is None


TURNED = """\
  par t in 0..cdiv(n, 4) @ [block.x]
    par i in 0..min(4, n - t * 4) @ [unroll 4, seq]
      par j in 0..m @ [seq]
        c[j * n + t * 4 + i] = a[(t * 4 + i) * m + j]
"""


def test_iterations_that_run_together_are_enough() -> None:
    k = kernel(TURNED)
    assert differs(k, jammed(with_full_tiles(k)), SIZES, lower=False) is None
    text = printed(k, "numba").text
    assert text.count("for j in") == 1 and text.count("for j_1 in") == 1, text


@pytest.mark.parametrize(
    "body",
    [
        TILE.replace("array acc: local", "array acc: shared").replace("unroll 2, ", ""),
        TURNED.replace("unroll 4, ", ""),
        TILE.replace("min(4, n - t * 4)", "4").replace("min(8, m)", "8"),
        "  par t in 0..n @ [block.x]\n    array acc: local f32[8]\n    let e: i32 = i32(a[t])\n"
        "    par j in 0..min(8, e) @ [seq]\n      acc[j] = a[j]\n      c[t * 8 + j] = acc[j]\n",
    ],
    ids=["no private array", "no iterations together", "nothing cut off", "what is left is not known before"],
)
def test_what_stays_as_it_is(body: str) -> None:
    k = kernel(body)
    assert with_full_tiles(k) is k


def test_a_condition_that_forgets_an_edge_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong version whose condition speaks of one of the tiles alone."""
    k = kernel(TILE)
    monkeypatch.setattr(full_tiles, "both", lambda a, b: b)
    wrong = with_full_tiles(k)
    assert any(isinstance(s, If) for s in walk(wrong.body))
    assert differs(k, wrong, [{"n": 5, "m": 8}, {"n": 4, "m": 7}], lower=False) is not None
