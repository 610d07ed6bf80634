"""Proofs about guards that let more through, branches that say the same, and several operands that differ at once."""

from __future__ import annotations

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.proofs import equivalent


def proof(text: str, *changes: tuple[str, str]) -> str:
    mutant = text
    for old, new in changes:
        assert old in mutant
        mutant = mutant.replace(old, new, 1)
    return equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(mutant)))


ROW = """
kernel k(y: f32*, x: f32 const* readonly, n: i32 range 1..1000)
  launch grid(cdiv(n, 4)) block(32, 4)
  let row: i32 = i32(blockIdx.x * 4 + threadIdx.y)
  var first: i32
  var m: f32
  array part: f32[4]
  if row < n
    first = row * 32
    m = 0.5
    part[0] = 1.0
  if row < n
    y[first + i32(threadIdx.x)] = m * part[0]
"""


READ = ROW.replace("  if row < n\n    y[first", "  if 0 < n\n    y[first")


def test_what_has_no_value_may_be_given_one() -> None:
    assert READ != ROW
    assert "undefined" in proof(READ, ("row < n", "row <= n"))
    assert "undefined" in proof(READ, ("row < n", "row < n + 7"))


@pytest.mark.parametrize(
    "changes",
    [
        [("row < n", "row + 1 < n")],
        [("row < n", "n < row")],
        [("var m: f32\n", "var m: f32 = 2.0\n"), ("row < n", "row <= n")],
        [("    m = 0.5\n", "    m = x[row]\n"), ("row < n", "row <= n")],
        [("part[0] = 1.0", "part[row] = 1.0"), ("row < n", "row <= n")],
        [("array part: f32[4]", "array part: shared f32[4]"), ("row < n", "row <= n")],
        [("    part[0] = 1.0\n", "    part[0] = 1.0\n    y[row] = 1.0\n"), ("row < n", "row <= n")],
        [("  if row < n\n", "  m = 3.0\n  if row < n\n"), ("row < n", "row <= n")],
    ],
)
def test_but_nothing_else(changes: list[tuple[str, str]]) -> None:
    text = READ
    for old, new in changes[:-1]:
        assert old in text
        text = text.replace(old, new, 1)
    assert not proof(text, changes[-1])


ARMS = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..1000, m: i32 range 1..1000)
  launch grid(m) block(32) shared(cdiv(n, 4) * 16 + n * 4)
  let tid: i32 = i32(threadIdx.x)
  let b: i32 = i32(blockIdx.x)
  if b < m - 8
    array s: shared f32[cdiv(n, 4) * 4] dynamic align 16
    for i = tid; i < n; i + 32
      s[i] = x[b * n + i]
    barrier
    for i = tid; i < n; i + 32
      y[b * n + i] = s[n - 1 - i]
  else
    array t: shared f32[n] dynamic align 16
    for i = tid; i < n; i + 32
      t[i] = x[b * n + i]
    barrier
    for i = tid; i < n; i + 32
      y[b * n + i] = t[n - 1 - i]
"""


@pytest.mark.parametrize("new", ["b < m + 8", "!(b < m - 8)", "m < b"])
def test_branches_that_differ_in_sizes_that_nobody_reaches_say_the_same(new: str) -> None:
    assert "no subscript reaches" in proof(ARMS, ("b < m - 8", new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("f32[n] dynamic", "f32[n - 1] dynamic"),
        ("f32[n] dynamic", "i32[n] dynamic"),
        ("t[n - 1 - i]", "t[n - i]"),
        ("t[n - 1 - i]", "t[i]"),
        ("s[n - 1 - i]\n", "s[n - 1 - i] * 2.0\n"),
    ],
)
def test_but_not_with_sizes_that_matter(old: str, new: str) -> None:
    assert old in ARMS
    assert not proof(ARMS.replace(old, new), ("b < m - 8", "b < m + 8"))


def test_threads_that_meet_in_a_branch_go_there_together() -> None:
    """Barriers of two branches are two barriers, though the branches are the same text."""
    assert not proof(ARMS, ("b < m - 8", "tid < m - 8"))
    alone = ARMS.replace("    barrier\n", "").replace("s[n - 1 - i]", "s[i]").replace("t[n - 1 - i]", "t[i]")
    assert proof(alone, ("b < m - 8", "tid < m - 8"))
    assert not proof(alone, ("b < m - 8", "x[m] < 1.0"))


HALVES = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..1000)
  launch grid(cdiv(n, 2)) block(64)
  let tid: i32 = i32(threadIdx.x)
  let row: i32 = i32(blockIdx.x) * 2
  array s: shared f32[2, 64]
  for c = 0; c < 2; c + 1
    if row + c < n
      s[c, tid] = x[(row + c) * 64 + tid]
  barrier
  for stride = 32; stride > 0; stride / 2
    for d = 0; d < 2; d + 1
      if row + d < n
        if tid < stride
          s[d, tid] = max(s[d, tid], s[d, tid + stride])
    barrier
  for e = 0; e < 2; e + 1
    if row + e < n
      y[(row + e) * 64 + tid] = s[e, 0]
"""


def test_rows_of_a_shared_array_that_nobody_reads_may_hold_anything() -> None:
    assert "read under that guard" in proof(HALVES, ("row + d < n", "row + d <= n"))
    shifted = HALVES.replace("stride / 2", "stride >> 1")
    assert "read under that guard" in proof(shifted, ("row + d < n", "d < n"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("stride = 32", "stride = 33"),
        ("s[e, 0]", "s[1 - e, 0]"),
        ("if row + e < n\n      y", "if row + e <= n\n      y"),
        ("max(s[d, tid], s[d, tid + stride])", "max(s[d, tid], x[row + d])"),
        ("stride / 2", "stride - 1 + stride / 40 * 9"),
        ("if row + d < n", "if row + d + tid < n + tid"),
    ],
)
def test_but_within_it_and_nobody_else_reads_them(old: str, new: str) -> None:
    assert old in HALVES
    text = HALVES.replace(old, new)
    widened = "row + d + tid <" if "tid < n + tid" in new else "row + d <"
    assert not proof(text, (widened + " n", widened + "= n"))


ONCE = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..1024)
  launch grid(8) block(min(n, 1024))
  let tid: i32 = i32(threadIdx.x)
  let row: i32 = i32(blockIdx.x) * n
  for i = tid; i < n; i + i32(blockDim.x)
    y[row + i] = x[row + i] * 2.0 + x[row + i + 1024]
"""


def test_several_operands_may_differ_where_each_has_one_value() -> None:
    both = [("y[row + i]", "y[row + tid]"), ("x[row + i]", "x[row + tid]")]
    assert proof(ONCE, *both) and proof(ONCE, *both, ("x[row + i + 1024]", "x[tid + row + 1024]"))


def test_but_not_where_one_has_not() -> None:
    both = [("y[row + i]", "y[row + tid]"), ("x[row + i]", "x[row + tid]")]
    assert not proof(ONCE, *both, ("x[row + i + 1024]", "x[row + i + 1023]"))
    assert not proof(ONCE.replace("min(n, 1024)", "min(n, 512)"), *both)


LAZY = """
kernel k(y: f32* noalias, x: i32 const* noalias readonly, n: i32 range 1..1024)
  launch grid(1) block(32)
  let i: i32 = i32(threadIdx.x)
  y[i] = i < n && x[i] > 0 ? 1.0 : 2.0
"""


def test_what_is_read_under_a_condition_is_not_read_before_it() -> None:
    assert not proof(LAZY, ("i < n && x[i] > 0", "x[i] > 0 && i < n"))
    assert not proof(LAZY, ("i < n && x[i] > 0", "i < n && (x[i] > 0 || x[n] < x[n])"))
    assert proof(LAZY, ("i < n && x[i] > 0", "i + 1 <= n && x[i] > 0"))


OUTSIDE = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..100)
  launch grid(1) block(8)
  let tid: i32 = i32(threadIdx.x)
  let p: i32 = i32(x[0])
  let q: i32 = i32(x[1])
  array s: f32[1]
  array t: f32[1]
  var a: f32 = 0.0
  var b: f32 = 0.0
  s[0] = 1.0
  t[0] = 2.0
  if n > 5
    ONE
  else
    OTHER
  y[tid] += a * 2.0 + b + s[0] * 3.0 + t[0]
"""


@pytest.mark.parametrize(
    ("one", "other", "holds"),
    [
        ("a = x[tid]", "b = x[tid]", False),
        ("y[tid] = f32(p)", "y[tid] = f32(q)", False),
        ("y[tid] = s[0]", "y[tid] = t[0]", False),
        ("y[tid] = f32(p - q)", "y[tid] = f32(q - p)", False),
        ("s[0] = 3.0", "t[0] = 3.0", False),
        ("y[tid] = s[0]", "y[tid] = s[0]", True),
        ("y[tid] = f32(p + q)", "y[tid] = f32(q + p)", True),
    ],
)
def test_branches_say_the_same_of_the_same_things(one: str, other: str, holds: bool) -> None:
    text = OUTSIDE.replace("ONE", one).replace("OTHER", other)
    assert bool(proof(text, ("n > 5", "n > 6"))) is holds
