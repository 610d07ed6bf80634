"""Proofs that two definitions of a variable differ where no use of it can tell."""

from __future__ import annotations

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.proofs import equivalent

TILE = """
kernel k(b: f32* noalias, a: f32 const* noalias readonly, n: i32 range 1..10000)
  launch grid(cdiv(n, 60)) block(32)
  let y0: i32 = i32(blockIdx.x) * 60 - 2
  array s: shared f32[64]
  array t: shared f32[64]
  let whole: bool = y0 >= 1 && y0 <= n - 1 - 64
  for i = i32(threadIdx.x); i < 64; i + 32
    let y: i32 = y0 + i
    if whole || (y >= 0 && y < n)
      s[i] = a[y]
  barrier
  for j = i32(threadIdx.x); j < 64; j + 32
    let z: i32 = y0 + j
    if j >= 1 && j < 63
      if whole || (z >= 1 && z < n - 1)
        t[j] = s[j - 1] + s[j + 1]
      else
        if z >= 0 && z < n
          t[j] = s[j]
  barrier
  for m = i32(threadIdx.x); m < 64; m + 32
    let w: i32 = y0 + m
    if m >= 2 && m < 62 && (whole || (w >= 1 && w < n - 1))
      b[w] = t[m - 1] + t[m + 1]
"""


def proof(change: tuple[str, str], *before: tuple[str, str]) -> str:
    text = TILE
    for old, new in before:
        assert old in text
        text = text.replace(old, new)
    assert change[0] in text
    return equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(*change, 1))))


ONE_MORE, ONE_LESS = ("y0 <= n - 1 - 64", "y0 <= n - 0 - 64"), ("y0 <= n - 1 - 64", "y0 < n - 1 - 64")


@pytest.mark.parametrize("change", [ONE_MORE, ONE_LESS, ("y0 >= 1", "y0 >= 0"), ("y0 >= 1", "y0 > 60")])
def test_a_tile_may_be_taken_for_whole_where_all_of_it_is_there(change: tuple[str, str]) -> None:
    assert "each use" in proof(change)


@pytest.mark.parametrize(
    "change", [("y0 <= n - 1 - 64", "y0 <= n + 1 - 64"), ("y0 >= 1", "y0 >= -2"), ("y0 >= 1 &&", "y0 >= 1 ||")]
)
def test_but_not_where_some_of_it_is_not(change: tuple[str, str]) -> None:
    assert not proof(change)


TOLD = {
    "by one of the uses": ("whole || (w >= 1 && w < n - 1)", "whole || (w >= 1 && w < n - 3)"),
    "by what is stored": ("b[w] = t[m - 1] + t[m + 1]", "b[w] = whole ? t[m - 1] : t[m + 1]"),
    "by where it is stored": ("b[w] =", "b[w + i32(whole)] ="),
    "by what is read": ("s[j - 1] +", "s[whole ? j - 1 : j] +"),
    "where the guards around it do not hold": ("if j >= 1 && j < 63", "if j >= 1 && j < 64"),
    "by a bound": ("m < 64; m + 32", "m < (whole ? 64 : 63); m + 32"),
}


@pytest.mark.parametrize("what", TOLD)
def test_nor_where_a_use_can_tell(what: str) -> None:
    assert not proof(ONE_MORE, TOLD[what])


CHANGING = {
    "the variable gets other values": ("  barrier\n  for j", "  whole = whole && n > 99\n  barrier\n  for j"),
    "what it is made of does": ("  barrier\n  for j", "  y0 = y0 + 1\n  barrier\n  for j"),
}


@pytest.mark.parametrize("what", CHANGING)
def test_nor_where_its_value_is_not_that_of_the_definition_later(what: str) -> None:
    variables = [("let whole", "var whole"), ("let y0", "var y0")]
    assert not proof(ONE_MORE, *variables, CHANGING[what])


def test_a_definition_is_computed_even_if_nobody_asks() -> None:
    assert not proof(("y0 <= n - 1 - 64", "y0 <= n - 1 - 64 / (n - 7)"))
    assert not proof(("y0 <= n - 1 - 64", "y0 <= n * n * n / n / n - 1 - 64"))


def test_lanes_exchange_values_under_the_same_condition() -> None:
    """The value of the condition is the same for both, but for one of them lanes wait for each other."""
    lazy = ("whole || (w >= 1 && w < n - 1)", "w < n && (w >= n || whole || shfl_xor(w, 1) > n)")
    guarded = ("if m >= 2 && m < 62 &&", "if w > n &&")
    assert not proof(ONE_MORE, lazy, guarded)
