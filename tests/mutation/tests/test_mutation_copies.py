"""Proofs about copies that nobody asks for: what a looser guard gives them goes nowhere."""

from __future__ import annotations

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.proofs import equivalent

TREES = """
kernel k(y: f32*, x: f32 const*, n: i32 range 1..1000, d: i32 range 1..1000)
  launch grid(cdiv(n, 4)) block(64)
  let row: i32 = i32(blockIdx.x) * 4
  let tid: i32 = i32(threadIdx.x)
  array s: f32[4]
  for u = 0; u < 4; u + 1
    s[u] = 0.0
  array parts: shared f32[4, 2]
  for i = tid; i < d; i + 64
    for v = 0; v < 4; v + 1
      if row + v < n
        s[v] += x[(row + v) * d + i]
  for w = 0; w < 4; w + 1
    if row + w < n
      s[w] = s[w] * 2.0
  for w = 0; w < 4; w + 1
    for o = 16; o > 0; o / 2
      s[w] += shfl_xor(s[w], o)
  if tid % 32 == 0
    for w = 0; w < 4; w + 1
      parts[w, tid / 32] = s[w]
  barrier
  for w = 0; w < 4; w + 1
    s[w] = parts[w, 0] + parts[w, 1]
  for w = 0; w < 4; w + 1
    if row + w < n && tid == 0
      y[row + w] = s[w]
"""
GUARD = "    if row + w < n\n      s[w] = s[w] * 2.0\n"
LOOSE = "    s[w] = s[w] * 2.0\n"


def proof(text: str, old: str = GUARD, new: str = LOOSE) -> bool:
    assert text.count(old) == 1
    found = equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(old, new))))
    assert not found or "under that guard" in found
    return bool(found)


def test_a_copy_that_nobody_has_may_go_through_a_tree() -> None:
    assert proof(TREES)
    assert proof(TREES, GUARD, GUARD.replace("row + w < n", "w < n"))
    assert not proof(TREES, GUARD, GUARD.replace("row + w < n", "row + w < n - 1"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("row + w < n && tid == 0", "tid == 0"),  # it is stored
        ("row + w < n && tid == 0", "row + w <= n && tid == 0"),
        ("= parts[w, 0] + parts[w, 1]", "= parts[w, 0] + parts[3 - w, 1]"),  # it goes into another copy
        ("      s[w] += shfl_xor(s[w], o)", "      s[w] += shfl_xor(s[3 - w], o)"),
        ("      s[w] += shfl_xor(s[w], o)", "      s[w] += shfl_xor(s[(w + tid) % 4], o)"),
        ("parts[w, tid / 32] = s[w]", "parts[0, tid / 32] = s[w]"),
        ("parts[w, tid / 32] = s[w]", "parts[w, tid / 32] = x[i32(s[w])]"),  # who knows where that is
        ("parts[w, tid / 32] = s[w]", "parts[w, i32(s[w])] = s[w]"),
        ("  barrier\n", "  barrier\n  if s[1] > 0.0\n    y[n] = 1.0\n"),
        ("  barrier\n", "  barrier\n  atomic add y[0], s[1]\n"),
        ("  barrier\n", "  barrier\n  atomic add parts[0, 0], s[1]\n"),
        ("  barrier\n", "  barrier\n  for c = 0; f32(c) < s[1]; c + 1\n    y[n] = 1.0\n"),
    ],
)
def test_and_not_where_somebody_asks_for_it(old: str, new: str) -> None:
    assert old in TREES
    assert not proof(TREES.replace(old, new))


def test_nor_into_memory_of_threads_with_guards_of_their_own() -> None:
    own = TREES.replace("row + w < n", "row + w + tid < n").replace("row + v < n", "row + v + tid < n")
    assert not proof(own, GUARD.replace("w < n", "w + tid < n"))


CARRIED = """
kernel k(y: f32*, n: i32 range 1..1000)
  launch grid(1) block(64)
  array s: f32[4]
  for r = 0; r < n; r + 1
    for v = 0; v < 4; v + 1
      if (r * 4 + v) % 3 < 2
        y[(r * 4 + v) * 64 + i32(threadIdx.x)] = s[v]
    for u = 0; u < 4; u + 1
      if (r * 4 + u) % 3 < 2
        s[u] = f32(r)
"""


def test_a_guard_that_says_another_thing_in_the_next_round_guards_nothing() -> None:
    """What the last round gave to a copy that it does not have, the next one asks for."""
    guard = "      if (r * 4 + u) % 3 < 2\n        s[u]"
    assert not proof(CARRIED, guard, "      s[u]")
    fresh = CARRIED.replace("  array s: f32[4]\n", "").replace("    for v = 0", "    array s: f32[4]\n    for v = 0")
    assert proof(fresh, guard, "      s[u]")
    scalar = "kernel k(y: f32*, n: i32 range 1..9)\n  launch grid(1) block(1)\n  var s: f32 = 0.0\n"
    loop = "  for r = 0; r < n; r + 1\n    if r != 2\n      y[r] = s\n    if r != 2\n      s = f32(r)\n"
    assert not proof(scalar + loop, "    if r != 2\n      s = f", "    s = f")
    named = loop.replace("  if r != 2\n", "  if t != 2\n").replace("r + 1\n", "r + 1\n    let t: i32 = r\n", 1)
    assert not proof(scalar + named, "    if t != 2\n      s = f", "    s = f")


def test_nor_may_a_copy_be_made_of_another_one() -> None:
    """Where the guard lets the first through and not the second, the first changes."""
    text = TREES.replace(GUARD, GUARD.replace("s[w] * 2.0", "s[(w + 1) % 4] * 2.0"))
    assert not proof(
        text, GUARD.replace("s[w] * 2.0", "s[(w + 1) % 4] * 2.0"), LOOSE.replace("s[w] *", "s[(w + 1) % 4] *")
    )


def test_nor_may_what_does_not_exist_be_written() -> None:
    text = """
kernel k(y: f32*, x: f32 const*)
  launch grid(1) block(64)
  array s: f32[4]
  for u = 0; u < 8; u + 1
    if u < 4
      s[u] = 1.0
  for w = 0; w < 4; w + 1
    y[w] = s[w]
"""
    assert not proof(text, "    if u < 4\n      s", "    s")
    assert proof(text.replace("f32[4]", "f32[8]"), "    if u < 4\n      s", "    s")


def test_copies_of_two_numbers() -> None:
    text = """
kernel k(y: f32*, x: f32 const*, n: i32 range 1..100)
  launch grid(1) block(64)
  array s: f32[2, 4]
  for u = 0; u < 2; u + 1
    for v = 0; v < 4; v + 1
      if u * 4 + v < n
        s[u, v] = 1.0
  for a = 0; a < 2; a + 1
    for b = 0; b < 4; b + 1
      if a * 4 + b < n
        y[a * 4 + b] = s[a, b]
"""
    guard = "      if u * 4 + v < n\n        s"
    assert proof(text, guard, "      s")
    assert not proof(text.replace("= s[a, b]", "= s[1 - a, b]"), guard, "      s")
    assert not proof(text.replace("a * 4 + b < n", "a * 4 < n"), guard, "      s")
