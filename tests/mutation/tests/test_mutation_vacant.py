"""Proofs that an element which a guard keeps out of a sum is zero still, so that adding it changes nothing."""

from __future__ import annotations

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.proofs import equivalent

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
    one = again.replace("if b * 4 + z < n &&", "if")
    assert not equivalent(canonical(parse_kernel(again)), canonical(parse_kernel(one)))
    inside = again.replace("  array s: f32[4]\n  for u = 0; u < 4; u + 1\n    s[u] = 0.0\n", "").replace(
        "    for v", "    array s: f32[4]\n    for u = 0; u < 4; u + 1\n      s[u] = 0.0\n    for v"
    )
    fresh = inside.replace("if b * 4 + z < n &&", "if")
    assert equivalent(canonical(parse_kernel(inside)), canonical(parse_kernel(fresh)))


TWO_LEVELS = """
kernel k(y: f32*, x: f32 const* readonly, n: i32 range 1..1073741824)
  launch grid(cdiv((n + 63) / 64, 2)) block(64)
  flags reassociates
  let tid: i32 = i32(threadIdx.x)
  let b: i32 = i32(blockIdx.x) * 2
  array s: f32[2]
  for u = 0; u < 2; u + 1
    s[u] = 0.0
  array t: shared f32[2, 2]
  for v = 0; v < 2; v + 1
    if b + v < (n + 63) / 64
      let i: i32 = (b + v) * 64 + tid
      let e: f32 = i < n ? x[i] : 0.0
      s[v] += e
  for w = 0; w < 2; w + 1
    for o = 16; o > 0; o / 2
      s[w] += shfl_xor(s[w], o)
  if tid % 32 == 0
    for p = 0; p < 2; p + 1
      t[p, tid / 32] = s[p]
  barrier
  for q = 0; q < 2; q + 1
    s[q] = t[q, 0]
    for r = 1; r < 2; r + 1
      s[q] += t[q, r]
  for z = 0; z < 2; z + 1
    if b + z < (n + 63) / 64 && tid == 0
      atomic add y[0], s[z]
"""
GUARDED = """    if b + v < (n + 63) / 64
      let i: i32 = (b + v) * 64 + tid
      let e: f32 = i < n ? x[i] : 0.0
      s[v] += e
"""
UNGUARDED = GUARDED.replace("    if b + v < (n + 63) / 64\n", "").replace("      ", "    ")
LAST = "if b + z < (n + 63) / 64 &&"


def proof_of(text: str, old: str, new: str) -> str:
    assert old in text
    return equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(old, new))))


@pytest.mark.parametrize(("old", "new"), [(LAST, "if"), ("b + z <", "b + z <="), (GUARDED, UNGUARDED)])
def test_zeros_go_through_an_array_that_the_block_shares(old: str, new: str) -> None:
    assert "zeros are added" in proof_of(TWO_LEVELS, old, new)


FILL = "  if tid % 32 == 0\n    for p = 0; p < 2; p + 1\n      t[p, tid / 32] = s[p]\n  barrier\n"
FIRST = "  for u = 0; u < 2; u + 1\n    s[u] = 0.0\n  array t: shared f32[2, 2]\n"
NOT_THROUGH = {
    "of another copy": ("t[p, tid / 32] = s[p]", "t[p, tid / 32] = s[1 - p]"),
    "for another copy": ("t[p, tid / 32] = s[p]", "t[1 - p, tid / 32] = s[p]"),
    "and something": ("t[p, tid / 32] = s[p]", "t[p, tid / 32] = s[p] + x[p]"),
    "from one warp alone": ("if tid % 32 == 0", "if tid == 0"),
    "for some sizes alone": ("if tid % 32 == 0", "if tid % 32 == 0 && n > 5"),
    "from no thread, by unsigned numbers": ("if tid % 32 == 0", "if threadIdx.x % 32u - 33u < 0u"),
    "without waiting": (FILL, FILL.replace("  barrier\n", "")),
    "before something else": ("  barrier\n", "  barrier\n  if tid == 3\n    t[0, 0] = 1.0\n"),
    "before the array begins with zeros": (FIRST, "  array t: shared f32[2, 2]\n" + FILL + FIRST.split("  array")[0]),
    "read for another copy": ("s[q] = t[q, 0]", "s[q] = t[1 - q, 0]"),
    "added for another copy": ("s[q] += t[q, r]", "s[q] += t[1 - q, r]"),
    "and one": ("s[q] += t[q, r]", "s[q] += t[q, r] + 1.0"),
}


@pytest.mark.parametrize("what", NOT_THROUGH)
def test_but_nothing_else_does(what: str) -> None:
    text = TWO_LEVELS.replace(FILL, "") if "before the array" in what else TWO_LEVELS
    old, new = NOT_THROUGH[what]
    assert old in text
    assert not proof_of(text.replace(old, new), LAST, "if")


@pytest.mark.parametrize(
    ("old", "new"), [("x[i] : 0.0", "x[i] : 1.0"), ("i < n ?", "i < n + 1 ?"), ("i < n ? x[i] : 0.0", "x[i]")]
)
def test_a_guard_that_keeps_other_values_out_stays(old: str, new: str) -> None:
    text = TWO_LEVELS.replace(old, new)
    assert not proof_of(text, GUARDED.replace(old, new), UNGUARDED.replace(old, new))


@pytest.mark.parametrize(("most", "holds"), [(1_000_000_000, True), (2_147_483_640, False)])
def test_what_wraps_in_code_that_was_not_run_is_no_zero(most: int, holds: bool) -> None:
    guarded = "    if v < n / 64 % 2\n      BODY\n      s += e\n"
    text = f"""
kernel k(y: f32*, x: f32 const* readonly, n: i32 range 1..{most})
  launch grid(1) block(64)
  flags reassociates
  var s: f32 = 0.0
  for v = 0; v < 2; v + 1
{guarded}  atomic add y[0], s
"""
    body = "let i: i32 = n / 64 * 64 + v * 64 + i32(threadIdx.x)\n      let e: f32 = i >= n - 1000 ? 0.0 : x[i]"
    text, guarded = text.replace("BODY", body), guarded.replace("BODY", body)
    bare = guarded.replace("    if v < n / 64 % 2\n", "").replace("      ", "    ")
    assert bool(proof_of(text, guarded, bare)) is holds
