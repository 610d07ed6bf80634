"""Proofs that an element which a guard keeps out of a sum is zero still, so that adding it changes nothing."""

from __future__ import annotations

import pytest
from ktc.ir.text import canonical, parse_kernel
from ktc.search.mutation.proofs import equivalent

ROWS = """
kernel k(y: f32*, x: f32 const* readonly, n: i32 range 1..100000, d: i32 range 1..1000)
  launch grid(cdiv(n, 4)) block(32)
  flags reassociates
  let tid: i32 = i32(threadIdx.x)
  let row: i32 = i32(blockIdx.x) * 4
  array s: f32[4]
  for u = 0; u < 4; u + 1
    s[u] = 0.0
  for i = tid; i < d; i + 32
    for v = 0; v < 4; v + 1
      if row + v < n
        s[v] += x[(row + v) * d + i]
  for w = 0; w < 4; w + 1
    for o = 16; o > 0; o / 2
      s[w] += shfl_xor(s[w], o)
  for z = 0; z < 4; z + 1
    if row + z < n && tid == 0
      atomic add y[0], s[z]
"""
GUARD = "if row + z < n &&"


def proof(change: tuple[str, str], *before: tuple[str, str]) -> str:
    pytest.importorskip("z3")
    text = ROWS
    for old, new in before:
        assert old in text
        text = text.replace(old, new)
    assert change[0] in text
    return equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(*change))))


WIDER = {
    "every copy": (GUARD, "if"),
    "one more": ("row + z < n", "row + z <= n"),
    "of the first block": ("row + z < n", "z < n"),
    "none of the last block": ("row + z < n", "row + z < n && (row + z < n || d == 7)"),
}


@pytest.mark.parametrize("what", WIDER)
def test_rows_that_do_not_exist_add_zeros(what: str) -> None:
    assert proof(WIDER[what])


def test_but_no_row_that_exists_may_be_left_out() -> None:
    assert not proof(("row + z < n", "row + z + 1 < n"))
    assert not proof(("row + z < n", "row + z < d"))


NOT_ZERO = {
    "another first value": ("s[u] = 0.0", "s[u] = 1.0"),
    "not all begin with a value": ("u < 4", "u < 3"),
    "the first value is read": ("s[u] = 0.0", "s[u] = x[u]"),
    "only some threads begin": ("    s[u] = 0.0", "    if tid < 3\n      s[u] = 0.0"),
    "values of other rows": ("if row + v < n\n", "if row + v < n + 1\n"),
    "a row for every thread": ("if row + v < n\n", "if row + v + tid < n + tid * 2\n"),
    "of another copy": ("s[v] += x", "s[3 - v] += x"),
    "exchanged between copies": ("shfl_xor(s[w], o)", "shfl_xor(s[3 - w], o)"),
    "exchanged between copies of lanes": ("shfl_xor(s[w], o)", "shfl_xor(s[(w + tid) % 4], o)"),
    "not nothing": ("shfl_xor(s[w], o)", "(shfl_xor(s[w], o) + 1.0)"),
    "nothing times anything": ("shfl_xor(s[w], o)", "s[w] * x[0]"),
    "counted": ("s[w] += shfl_xor(s[w], o)", "s[w] += 1.0"),
    "added by an atomic": ("s[w] += shfl_xor(s[w], o)", "atomic add s[w], x[0]"),
    "not added": ("atomic add", "atomic max"),
    "at a place of its own": ("atomic add y[0]", "atomic add y[row + z]"),
}


@pytest.mark.parametrize("what", NOT_ZERO)
def test_where_something_else_comes_in_it_is_no_zero(what: str) -> None:
    assert not proof(WIDER["every copy"], NOT_ZERO[what])


def test_a_bound_that_changes_says_nothing_of_what_was() -> None:
    moving = ROWS.replace("let row: i32 = i32(blockIdx.x) * 4", "var row: i32 = i32(blockIdx.x) * 4").replace(
        "  for z", "  row = n\n  for z"
    )
    pytest.importorskip("z3")
    more = moving.replace(GUARD, "if")
    assert not equivalent(canonical(parse_kernel(moving)), canonical(parse_kernel(more)))


def test_nor_does_a_loop_that_began_again() -> None:
    """The array outlives the round in which its guard was asked."""
    again = """
kernel k(y: f32*, x: f32 const* readonly, n: i32 range 1..100000)
  launch grid(1) block(32)
  flags reassociates
  array s: f32[4]
  for u = 0; u < 4; u + 1
    s[u] = 0.0
  for b = 0; b < 3; b + 1
    for v = 0; v < 4; v + 1
      if b * 4 + v < n
        s[v] += x[b * 4 + v]
    for z = 0; z < 4; z + 1
      if b * 4 + z < n && threadIdx.x == 0
        atomic add y[0], s[z]
"""
    pytest.importorskip("z3")
    one = again.replace("if b * 4 + z < n &&", "if")
    assert not equivalent(canonical(parse_kernel(again)), canonical(parse_kernel(one)))
    inside = again.replace("  array s: f32[4]\n  for u = 0; u < 4; u + 1\n    s[u] = 0.0\n", "").replace(
        "    for v", "    array s: f32[4]\n    for u = 0; u < 4; u + 1\n      s[u] = 0.0\n    for v"
    )
    fresh = inside.replace("if b * 4 + z < n &&", "if")
    assert equivalent(canonical(parse_kernel(inside)), canonical(parse_kernel(fresh)))
