"""Copies of whole tiles, in code of their own."""

from __future__ import annotations

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import If
from ktc.ir.text import parse_kernel
from ktc.ir.walk import walk
from ktc.passes.lowering.whole_copies import with_whole_copies
from tests.passes.checks import body_of, differs

HEAD = "kernel k(c: f32* restrict noalias, w: f32 const* restrict noalias, n: i32, m: i32)\n"
COPY = """\
  par t in 0..cdiv(m, 8) @ [block.x]
    array w_s: shared f32[4, 8]
    for k in 0..n step 4
      par a in 0..4 @ [seq]
        par b in 0..8 @ [seq]
          w_s[a, b] = a < n - k && b < m - t * 8 ? w[(k + a) * m + t * 8 + b] : 0.0
      par a_1 in 0..min(4, n - k) @ [seq]
        par b_1 in 0..min(8, m - t * 8) @ [seq]
          c[(k + a_1) * m + t * 8 + b_1] = 2.0 * w_s[a_1, b_1]
"""
SIZES = [{"n": n, "m": m} for n, m in ((1, 1), (4, 8), (5, 8), (8, 7), (13, 19))]


def kernel(body: str) -> Kernel:
    return parse_kernel(HEAD + body)


def test_a_whole_tile_asks_nothing() -> None:
    assert """\
      if n - k >= 4 && m - t * 8 >= 8
        par a in 0..4 @ [seq]
          par b in 0..8 @ [seq]
            w_s[a, b] = w[(k + a) * m + t * 8 + b]
      else
        par a_2 in 0..4 @ [seq]
          par b_2 in 0..8 @ [seq]
            w_s[a_2, b_2] = a_2 < n - k && b_2 < m - t * 8 ? w[(k + a_2) * m + t * 8 + b_2] : 0.0
""" in body_of(with_whole_copies(kernel(COPY)))


UNFILLED = COPY.replace(
    "w_s[a, b] = a < n - k && b < m - t * 8 ? w[(k + a) * m + t * 8 + b] : 0.0",
    "if a < n - k && b < m - t * 8\n            w_s[a, b] = w[(k + a) * m + t * 8 + b]",
)


def test_a_condition_around_the_store_goes_as_well() -> None:
    whole = with_whole_copies(kernel(COPY))
    assert body_of(with_whole_copies(kernel(UNFILLED))).split("else")[0] == body_of(whole).split("else")[0]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("body", [COPY, UNFILLED], ids=["filled", "unfilled"])
def test_the_same_on_awkward_sizes(body: str, size: dict[str, int]) -> None:
    k = kernel(body)
    assert differs(k, with_whole_copies(k), [size], lower=False) is None


@pytest.mark.parametrize(
    "condition", ["a < n - k - b", "a + 1 < n - k", "a < n - k || b < m - t * 8", "w[a] < 1.0", "a > n"]
)
def test_any_other_condition_stays(condition: str) -> None:
    k = kernel(COPY.replace("a < n - k && b < m - t * 8", condition))
    assert not any(isinstance(s, If) for s in walk(with_whole_copies(k).body))
