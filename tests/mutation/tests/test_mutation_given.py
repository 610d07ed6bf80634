"""Proofs on symbols of values that are what they are under a condition, and are asked for under that one alone; and
what such proofs may cost."""

from __future__ import annotations

import time

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.proofs import equivalent
from tests.mutation.symbolic.effort import Effort
from tests.mutation.symbolic.symbolic import same_effect

ROWS = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..10000, d: i32 range 1..1000)
  launch grid(cdiv(n, 4)) block(16, 4)
  flags reassociates
  let tid: i32 = i32(threadIdx.x)
  let row: i32 = i32(threadIdx.y) + i32(blockIdx.x) * 4
  var first: f32
  if row < n
    first = -inf
  var m: f32 = -inf
  for i = tid; i < d; i + 16
    if row < n
      m = max(m, x[row * d + i])
  for o = 8; o > 0; o / 2
    m = max(m, shfl_xor(m, o))
  m = max(first, m)
  var out: f32
  if row < n
    out = m
  if row < n && tid == 0
    y[row] = out
"""
TAKEN = ("  m = max(first, m)\n", "")
SUM = [("-inf", "0.0"),
       ("max(m, x[row * d + i])", "m + x[row * d + i]"), ("max(m, shfl_xor(m, o))", "m + shfl_xor(m, o)"),
       ("max(first, m)", "m + first")]  # fmt: skip


def proof(change: tuple[str, str], *before: tuple[str, str]) -> str:
    text = ROWS
    for old, new in before:
        assert old in text
        text = text.replace(old, new)
    assert change[0] in text
    return equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(*change))))


def test_a_maximum_with_nothing_where_it_is_asked_for() -> None:
    assert "symbolic threads" in proof(TAKEN)
    assert "symbolic threads" in proof(("  m = max(m, first)\n", ""), ("max(first, m)", "max(m, first)"))


def test_and_a_sum_with_zero() -> None:
    assert "symbolic threads" in proof(("  m = m + first\n", ""), *SUM)
    assert not proof(("  m = m + first\n", ""), *SUM, ("  flags reassociates\n", ""))
    assert not proof(("  m = m - first - 1.0\n", ""), *SUM, ("m + first", "m - first - 1.0"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    first = -inf", "    first = 0.0"),
        ("    first = -inf", "    first = inf"),
        ("  if row < n\n    first", "  if row + 1 < n\n    first"),
        ("  if row < n\n    first", "  if row >= n\n    first"),
        ("  if row < n\n    out", "  if row <= n\n    out"),
        ("  m = max(first, m)\n", "  m = min(first, m)\n"),
        ("    out = m\n", "    out = m\n  y[row] = m\n"),
        ("  m = max(first, m)\n", "  row = row - 1\n  m = max(first, m)\n"),
    ],
)
def test_but_not_with_what_may_be_something(old: str, new: str) -> None:
    """The guard of the first value is not that of the last, or it is no identity, or somebody else asks."""
    dropped = "  m = min(first, m)\n" if "min(" in new else "  m = max(first, m)\n"
    text = ROWS.replace("let row", "var row")
    assert old in text
    text = text.replace(old, new, 1)
    assert not equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(dropped, ""))))


def test_nor_with_what_another_lane_has_under_its_own_condition() -> None:
    before = (("  m = max(first, m)\n", ""), ("  for o = 8", "  m = max(first, m)\n  for o = 8"))
    assert "symbolic threads" in proof(TAKEN, *before)
    assert not proof(TAKEN, *before, ("row < n", "row + tid < n"))


LONG = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..10000)
  launch grid(1) block(64)
  flags reassociates
  let tid: i32 = i32(threadIdx.x)
  array s: shared f32[64]
  s[tid] = x[tid]
  barrier
  var m: f32 = 0.0
  for i = 0; i < 32; i + 1
    m += s[(tid + i) % 64]
  y[tid] = m
"""


def test_what_proofs_cost_is_counted() -> None:
    """Neither the load of the machine nor the clock says how far a proof gets."""
    kernel = canonical(parse_kernel(LONG))
    other = canonical(parse_kernel(LONG.replace("m += s[(tid + i) % 64]", "m = s[(tid + i) % 64] + m")))
    costs = set()
    for _ in range(2):
        effort = Effort(10**9)
        assert same_effect(kernel.body, other.body, kernel, (), effort)
        costs.add(10**9 - effort.left)
    (cost,) = costs
    assert cost > 64 * 32
    assert not same_effect(kernel.body, other.body, kernel, (), Effort(cost - 1))
    start = time.process_time()
    assert not same_effect(kernel.body, other.body, kernel, (), Effort(cost // 50))
    assert time.process_time() - start < 5
