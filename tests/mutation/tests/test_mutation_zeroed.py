"""Proofs that cells of a shared array which were filled with zeros are zeros still, through a tree of sums."""

from __future__ import annotations

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.proofs import equivalent

TREE = """
kernel k(y: f32*, z: f32*, x: f32 const* readonly, n: i32 range 1..100000)
  launch grid(cdiv((n + 63) / 64, 2)) block(64)
  array t: shared f32[2, 64]
  let tid: i32 = i32(threadIdx.x)
  for c = 0; c < 2; c + 1
    if i32(blockIdx.x) * 2 + c < (n + 63) / 64
      let i: i32 = (i32(blockIdx.x) * 2 + c) * 64 + tid
      t[c, tid] = i < n ? x[i] : 0.0
  barrier
  for o = 32; o > 0; o / 2
    for d = 0; d < 2; d + 1
      if i32(blockIdx.x) * 2 + d < (n + 63) / 64
        if tid < o
          t[d, tid] += t[d, tid + o]
    barrier
  for e = 0; e < 2; e + 1
    if i32(blockIdx.x) * 2 + e < (n + 63) / 64 && tid == 0
      atomic add y[0], t[e, 0]
"""
GUARD = "* 2 + d < (n + 63) / 64"
FEWER = (GUARD, "* 2 + d < (n + 62) / 64")


def proof(change: tuple[str, str], *before: tuple[str, str]) -> str:
    text = TREE
    for old, new in before:
        assert old in text
        text = text.replace(old, new)
    assert change[0] in text
    return equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(*change))))


ZEROS = {
    "as it is": [],
    "a maximum of zeros": [
        ("block(64)\n", "block(64)\n  flags reassociates\n"),
        ("t[d, tid] += t[d, tid + o]", "t[d, tid] = t[d, tid] + max(t[d, tid + o], t[d, tid + o])"),
    ],
    "the other arm": [("i < n ? x[i] : 0.0", "i >= n ? 0.0 : x[i]")],
    "a sum in any order": [
        ("block(64)\n", "block(64)\n  flags reassociates\n"),
        ("atomic add y[0], t[e, 0]", "y[e] = t[e, 0]"),
    ],
    "no guards around what fills": [("    if i32(blockIdx.x) * 2 + c < (n + 63) / 64\n", "    if n > 0\n")],
}


@pytest.mark.parametrize("what", ZEROS)
def test_a_row_of_one_element_is_its_own_sum(what: str) -> None:
    assert "zeros are added" in proof(FEWER, *ZEROS[what])


@pytest.mark.parametrize("new", ["(n + 61) / 64", "n / 64", "(n + 62) / 64 + d"])
def test_but_no_row_of_two_elements_may_be_left_out(new: str) -> None:
    assert not proof((GUARD, f"* 2 + d < {new}"))


NOT_ZERO = {
    "filled with something else": [("x[i] : 0.0", "x[i] : 1.0")],
    "one thread more": [("t[c, tid] = i < n ?", "t[c, tid] = i < n + 1 ?")],
    "no barrier behind what fills": [("  barrier\n  for o", "  for o")],
    "a warp's barrier behind it": [("  barrier\n  for o", "  barrier warp\n  for o")],
    "rows that end elsewhere": [("t[c, tid] = i < n ? x[i]", "t[c, tid] = i < n + c * 64 ? x[i]")],
    "nearer cells are added": [("t[d, tid] += t[d, tid + o]", "t[d, tid] += t[d, o - tid]")],
    "of the other row": [("t[d, tid] += t[d, tid + o]", "t[d, tid] += t[1 - d, tid + o]")],
    "counted": [("t[d, tid] += t[d, tid + o]", "t[d, tid] += t[d, tid + o] + 1.0")],
    "something else in between": [("  barrier\n  for o", "  barrier\n  t[0, tid] = x[0]\n  barrier\n  for o")],
    "an atomic in between": [("  barrier\n  for o", "  barrier\n  atomic add t[0, tid], x[0]\n  barrier\n  for o")],
    "filled by some": [("      t[c, tid] =", "      if tid < 40\n        t[c, tid] =")],
    "another use before": [("  for c", "  t[1, tid] = x[0]\n  for c")],
    "its sign is seen": [("atomic add y[0], t[e, 0]", "y[e] = t[e, 0]")],
    "its sign is seen by another": [("    barrier\n  for e", "    barrier\n  z[tid] = 1.0 / t[0, tid]\n  for e")],
}  # fmt: skip


@pytest.mark.parametrize("what", NOT_ZERO)
def test_where_something_else_may_come_in_nothing_may_be_left_out(what: str) -> None:
    assert not proof(FEWER, *NOT_ZERO[what])
