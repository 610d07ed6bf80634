"""Proofs that shared cells hold something else where nobody reads them any more; and what is just not so."""

from __future__ import annotations

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.proofs import equivalent

CLIPPED = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..1000)
  launch grid(cdiv(n, 32)) block(8)
  let tid: i32 = i32(threadIdx.x)
  let row: i32 = i32(blockIdx.x) * 32
  array s: shared f32[33]
  array v: f32[4]
  for c = 0; c < 4; c + 1
    if row + tid + c * 8 < n
      v[c] = x[row + tid + c * 8]
  for d = 0; d < 4; d + 1
    if row + tid + d * 8 < n
      s[tid + d * 8] = v[d]
  barrier
  for e = 0; e < 4; e + 1
    if row + tid + e * 8 < n
      y[row + tid + e * 8] = s[tid + e * 8]
"""
GUARD = "row + tid + d * 8 < n"
SAID = "nobody reads any more"

LEVELS = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly)
  launch grid(1) block(8)
  let tid: i32 = i32(threadIdx.x)
  array a: shared f32[32]
  array b: shared f32[32]
  for i = tid; i < 32; i + 8
    a[i] = x[i]
    b[i] = 0.0
  barrier
  for j = tid; j < 32; j + 8
    if j >= 1 && j < 31
      b[j] = a[j - 1] + a[j + 1]
  barrier
  for k = tid; k < 32; k + 8
    if k >= 2 && k < 30
      a[k] = b[k - 1] + b[k + 1]
  barrier
  for l = tid; l < 32; l + 8
    if l >= 3 && l < 29
      y[l] = a[l - 1] + a[l + 1]
"""
SECOND = "k >= 2 && k < 30"


def proof(change: tuple[str, str], *before: tuple[str, str], text: str = CLIPPED) -> str:
    for old, new in before:
        assert old in text
        text = text.replace(old, new)
    assert change[0] in text
    return equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(*change))))


@pytest.mark.parametrize("wider", ["row + tid + d * 8 <= n", "row + d * 8 < n", "tid + d * 8 < n", "d < n"])
def test_a_wider_guard_stores_cells_that_are_clipped_where_they_are_used(wider: str) -> None:
    assert SAID in proof((GUARD, wider))


@pytest.mark.parametrize(
    ("change", "before"),
    [
        ((GUARD, "row + tid + d * 8 < n - 1"), ()),
        ((GUARD, "row + tid + d * 8 <= n"), (("row + tid + e * 8 < n", "row + tid + e * 8 <= n"),)),
        ((GUARD, "row + d * 8 < n"), (("s[tid + d * 8]", "s[d * 8]"),)),
        (
            (GUARD, "row + tid + d * 8 <= n"),
            (("s[tid + d * 8]", "s[tid + d * 9]"), ("s[tid + e * 8]", "s[tid + e * 9]")),
        ),
        ((GUARD, "row + tid + d * 8 <= n"), (("= v[d]", "= x[row + tid + d * 8]"),)),
    ],
    ids=["too few", "read", "the same cell twice", "outside", "read beyond the end"],
)
def test_but_not_if_they_are_read_or_stored_twice_or_outside(
    change: tuple[str, str], before: tuple[tuple[str, str], ...]
) -> None:
    assert not proof(change, *before)


@pytest.mark.parametrize("other", ["k >= 1 && k < 30", "k >= 2 && k < 31"])
def test_a_level_of_time_may_reach_further_than_the_next_one_asks(other: str) -> None:
    assert SAID in proof((SECOND, other), ("l >= 3 && l < 29", "l >= 4 && l < 28"), text=LEVELS)


def test_or_less_far() -> None:
    assert SAID in proof((SECOND, "k >= 3 && k < 30"), ("l >= 3 && l < 29", "l >= 4 && l < 28"), text=LEVELS)


@pytest.mark.parametrize(
    ("change", "before"),
    [
        ((SECOND, "k >= 3 && k < 30"), ()),
        ((SECOND, "k >= 0 && k < 30"), ()),
        ((SECOND, "k >= 1 && k < 30"), (("  barrier\n  for k", "  for k"),)),
        ((SECOND, "k >= 1 && k < 30"), (("a[k] =", "a[(k + 1) / 2] ="), ("l >= 3 && l < 29", "l >= 18 && l < 29"))),
    ],
    ids=["asked", "outside", "no barrier", "two threads"],
)
def test_but_not_where_it_is_asked_or_would_race(change: tuple[str, str], before: tuple[tuple[str, str], ...]) -> None:
    """Two of them leave the same behind in lockstep; that they race is for the sanitizer to say."""
    assert SAID not in proof(change, *before, text=LEVELS)


LATE = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly)
  launch grid(1) block(64)
  let tid: i32 = i32(threadIdx.x)
  array s: shared f32[64]
  var sum: f32 = x[tid]
  s[63 - tid] = sum
  sum = sum * 2.0 + f32(tid)
  barrier
  y[tid] = sum + s[tid]
"""
MOVED = ("  sum = sum * 2.0 + f32(tid)\n  barrier\n", "  barrier\n  sum = sum * 2.0 + f32(tid)\n")


def test_what_a_thread_does_with_its_own_variables_may_come_behind_a_barrier() -> None:
    assert "of its own" in proof(MOVED, text=LATE)


def test_but_not_what_reads_what_others_wrote() -> None:
    read = ("sum * 2.0 + f32(tid)", "sum * 2.0 + s[tid]")
    assert not proof((MOVED[0].replace(*read), MOVED[1].replace(*read)), read, text=LATE)
