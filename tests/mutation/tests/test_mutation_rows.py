"""Proofs about exchanges among the lanes of one row, of a block whose number of rows is not known."""

from __future__ import annotations

import pytest

from ktc.ir.text import canonical, parse_kernel
from tests.mutation.proofs.proofs import equivalent

ROWS = """
kernel k(y: f32*, x: f32 const*, n: i32 range 1..1000, rows: i32 range 1..1000)
  launch grid(2) block(16, 1, cdiv(rows, 2))
  flags reassociates
  let tid: i32 = i32(threadIdx.x)
  let row: i32 = i32(blockIdx.x) + i32(threadIdx.z) * 2
  var s: f32 = 0.0
  for i = tid; i < n; i + 16
    if row < rows
      s += x[row * n + i]
  for o = 8; o > 0; o / 2
    s += shfl_xor(s, o)
  if row < rows
    y[row * 16 + tid] = s
"""


def proof(old: str, new: str, text: str = ROWS) -> str:
    assert old in text
    return equivalent(canonical(parse_kernel(text)), canonical(parse_kernel(text.replace(old, new))))


@pytest.mark.parametrize("first", [9, 10, 11, 12, 15])
def test_a_butterfly_reaches_every_lane_of_a_row_once(first: int) -> None:
    reached = {0}
    o = first
    while o > 0:
        reached = {*reached, *(lane ^ o for lane in reached)}
        o //= 2
    assert bool(proof("o = 8;", f"o = {first};")) == (len(reached) == 16)


@pytest.mark.parametrize("first", [4, 7, 16, 17, 24])
def test_and_not_fewer_lanes_nor_those_of_another_row(first: int) -> None:
    assert not proof("o = 8;", f"o = {first};")


def test_a_sum_in_its_order_is_another_sum() -> None:
    assert not proof("o = 8;", "o = 9;", ROWS.replace("  flags reassociates\n", ""))


def test_other_rows_of_a_warp_lend_their_values() -> None:
    """Of 16 lanes, those upwards of the last are the next row's, or this row's own: which, is not known."""
    down = ROWS.replace("shfl_xor(s, o)", "shfl_down(s, 17)")
    assert not proof("shfl_down(s, 17)", "s", down)
    narrow = ROWS.replace("shfl_xor(s, o)", "shfl_down(s, 17, width=16)")
    assert proof("shfl_down(s, 17, width=16)", "s", narrow)
    assert not proof("block(16,", "block(12,", ROWS) and not proof("o = 8;", "o = 9;", ROWS.replace("(16,", "(12,"))


def test_memory_that_all_rows_share_is_none_of_a_row() -> None:
    shared = ROWS.replace("  var s:", "  array t: shared f32[16]\n  var s:").replace(
        "    s += shfl_xor(s, o)\n", "    s += shfl_xor(s, o)\n  t[tid] = s\n  barrier\n  s = t[tid]\n"
    )
    assert not proof("s = t[tid]", "s = s", shared)
    alone = shared.replace("block(16, 1, cdiv(rows, 2))", "block(16, 1, 1)")
    assert proof("s = t[tid]", "s = s", alone)


def test_rows_of_whole_warps() -> None:
    wide = ROWS.replace("block(16, 1,", "block(64, 1,").replace("i + 16", "i + 64").replace("o = 8;", "o = 16;")
    assert "64 symbolic threads of a row" in proof("o = 16;", "o = 17;", wide)
    assert not proof("o = 16;", "o = 8;", wide) and not proof("o = 16;", "o = 32;", wide)
