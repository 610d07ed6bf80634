"""Proofs that what is read or stored to no purpose is there: values that nobody uses may lie beyond what exists."""

from __future__ import annotations

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.proofs import equivalent


def same(text: str, old: str, new: str) -> bool:
    assert old in text
    return bool(equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(old, new)))))


HEAD = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 1..1000)
  launch grid(1) block(8)
  let tid: i32 = i32(threadIdx.x)
"""
UNUSED = {
    "a load": """  var v: f32 = 0.0
  if tid < 4
    v = x[tid]
  if tid < 4
    y[tid] = v
""",
    "a choice": """  var v: f32 = 0.0
  if n > 5
    v = tid < 4 ? x[tid] : 0.0
  if tid < 4
    y[tid] = v
""",
    "a condition": """  var v: f32 = 1.0
  if tid < 4 && x[tid] > 0.0
    v = 2.0
  if tid < 4
    y[tid] = v
""",
    "a store": """  array s: f32[4]
  if tid < 4
    s[tid] = 1.0
  y[tid] = 1.0
""",
    "several stores": """  array s: f32[4]
  array t: f32[8]
  if tid < 4
    s[tid] = 1.0
    t[tid] = 1.0
  y[tid] = 1.0
""",
}


@pytest.mark.parametrize("name", UNUSED)
@pytest.mark.parametrize("new", ["tid <= 4", "tid < 5", "tid < n"])
def test_what_nobody_uses_must_be_there_all_the_same(name: str, new: str) -> None:
    first = UNUSED[name].index("tid < 4") + len(HEAD)
    text = HEAD + UNUSED[name]
    end = first + len("tid < 4")
    mutant = text[:first] + new + text[end:]
    assert not equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(mutant)))


@pytest.mark.parametrize("name", UNUSED)
def test_what_is_touched_less_is_no_harm(name: str) -> None:
    """Where nothing of it is used, and what is named is touched in the candidate."""
    text = HEAD + UNUSED[name].replace("tid < 4", "tid < 6").replace("[4]", "[8]")
    first = text.index("tid < 6")
    mutant = text[:first] + "tid < 5" + text[first + len("tid < 6") :]
    used = "x[" in text
    text, mutant = (t.replace("y[tid] = v", "y[tid] = 1.0") if used else t for t in (text, mutant))
    assert equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(mutant)))


def test_a_round_more_stays_within_what_it_declares() -> None:
    text = """
kernel k(y: f32* noalias)
  launch grid(1) block(8)
  let tid: i32 = i32(threadIdx.x)
  for i = 0; i < 4; i + 1
    array s: f32[SIZE]
    s[i] = 0.0
    if i < 2
      y[tid] = s[i]
"""
    assert same(text.replace("SIZE", "5"), "i < 4", "i < 5")
    assert not same(text.replace("SIZE", "4"), "i < 4", "i < 5")


ENDLESS = """
kernel k(y: f32* noalias, n: i32 range 1..1000)
  launch grid(cdiv(n, 8)) block(8)
  let tid: i32 = i32(threadIdx.x)
  let row: i32 = i32(blockIdx.x) * 8 + tid
  var v: f32
  var w: f32 = 0.0
  for i = 16; i > 0; i / 2
    w = max(w, 1.0)
  if row < n
    for j = row; j < n; j + 1
      v = 2.0
  if row < n
    y[row] = 1.0
"""


def test_what_nobody_uses_must_end_all_the_same() -> None:
    assert not same(ENDLESS, "i > 0", "i >= 0")
    assert same(ENDLESS, "  if row < n\n    for j", "  if row <= n\n    for j")
    up = ENDLESS.replace("j < n", "j != n")
    assert not same(up, "  if row < n\n    for j", "  if row < n + 3\n    for j")


EXCHANGE = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly)
  launch grid(1) block(32)
  let tid: i32 = i32(threadIdx.x)
  var v: f32 = 1.0
  v += shfl_xor(v, 1)
  if tid < 4
    v = x[tid]
  if tid < 4
    y[tid] = v
"""


def test_lanes_that_exchange_what_nobody_uses_must_be_there() -> None:
    assert same(EXCHANGE, "shfl_xor(v, 1)", "shfl_xor(v, 2)")
    assert not same(EXCHANGE, "shfl_xor(v, 1)", "shfl_xor(v, 1, mask=0xfffffffe_u32)")
    assert not same(EXCHANGE, "  v += shfl", "  if tid < 3\n    v += shfl")


REMAINDER = """
kernel k(y: f32* noalias, x: f32 const* noalias readonly, n: i32 range 9..1000)
  launch grid(1) block(8)
  let tid: i32 = i32(threadIdx.x)
  var v: f32 = 0.0
  var w: i32 = 7
  if tid == 0
    v = x[tid % n]
  if tid < 4
    w = 8 % n
  y[tid] = v
"""


def test_nothing_is_divided_by_zero() -> None:
    assert same(REMAINDER, "x[tid % n]", "x[tid % (n + 1)]")
    assert not same(REMAINDER, "x[tid % n]", "x[tid % tid]")
    assert same(REMAINDER, "w = 8 % n", "w = 8 % (tid + 1)")
    assert not same(REMAINDER, "w = 8 % n", "w = 8 % tid")
