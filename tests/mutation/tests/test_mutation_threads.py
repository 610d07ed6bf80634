"""Proofs about launches of fewer or more threads: those that only one of two launches has do nothing."""

from __future__ import annotations

import pytest

from ktc.ir.text import canonical, parse_kernel
from ktc.ir.workload import ArgSpec
from tests.mutation.proofs.proofs import equivalent
from tests.search.verification.gate_samples import _workload, scalar

TILE = """
kernel k(out: f32* noalias, x: f32 const* noalias, n: i32 range 1..1000)
  launch grid(n) block(32, 8)
  array s: shared f32[8, 10]
  let column: i32 = i32(threadIdx.x)
  let row: i32 = i32(threadIdx.y)
  for i = column; i < 10; i + 32
    s[row, i] = x[i32(blockIdx.x) * 10 + i]
  barrier
  for j = column; j < 10; j + 32
    out[(i32(blockIdx.x) * 8 + row) * 10 + j] = s[7 - row, 9 - j]
"""
LEFT_OUT = "z3: the threads that are left out do nothing"
LANES = TILE.replace("s[7 - row, 9 - j]", "shfl_xor(s[7 - row, 9 - j], 1)")
WARPS = TILE.replace("  barrier\n", "  barrier\n  barrier warp\n")
LATE = TILE.replace("  barrier\n", "  if column >= 16\n    out[row] = 1.0\n  barrier\n")


def proof(old: str, new: str, text: str = TILE) -> str:
    assert old in text
    return equivalent(*(canonical(parse_kernel(t)) for t in (text, text.replace(old, new))))


def test_for_threads_that_only_wait_nobody_waits() -> None:
    assert proof("block(32, 8)", "block(16, 8)") == LEFT_OUT
    assert proof("block(32, 8)", "block(10, 8)") == LEFT_OUT


def test_threads_that_do_something_are_waited_for() -> None:
    assert not proof("block(32, 8)", "block(8, 8)")
    assert not proof("block(32, 8)", "block(16, 8)", LATE)


def test_others_must_reach_the_barriers_too() -> None:
    """What is added would have to meet the others at each of them, which is not looked at."""
    assert not proof("block(10, 8)", "block(32, 8)", TILE.replace("block(32, 8)", "block(10, 8)"))


@pytest.mark.parametrize("text", [LANES, WARPS])
def test_with_fewer_beside_it_a_thread_has_another_lane(text: str) -> None:
    assert not proof("block(32, 8)", "block(16, 8)", text)


FIRST = """
kernel k(y: f32* noalias, x: f32 const* noalias, n: i32 range 1..4096)
  launch grid(cdiv(n, 64)) block(64)
  let i: i32 = i32(blockIdx.x) * 64 + i32(threadIdx.x)
  let f: f32 = x[AT]
  if i < n
    y[i] = f
"""


@pytest.mark.parametrize(("at", "read"), [("0", True), ("n - 1", True), ("n", False), ("i", False)])
def test_threads_that_are_added_read_what_is_there(at: str, read: bool) -> None:
    args = (ArgSpec("y", "f32", "out", ("n",)), ArgSpec("x", "f32", "in", ("n",)), scalar("n", "n"))
    text = FIRST.replace("AT", at)
    few, many = (canonical(parse_kernel(t)) for t in (text, text.replace("cdiv(n, 64)", "n")))
    assert bool(equivalent(few, many, None, _workload("k", args, {"n": 64}))) == read
