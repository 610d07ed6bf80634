"""Guards that wait for a barrier or a shuffle below: what steers control flow is set wherever it is read."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.lowering import LoweringError, materialise

RAGGED = """
kernel k(y: f32*, x: f32 const*, ends: i32 const*, rows: i32)
  par row in 0..rows @ [thread.y 8, block.x]
    var last: i32 = ends[row]
    reduce(+) sum: f32 = 0.0 over k in 0..last @ [thread.x LANES, seq]
      yield x[row * 40 + k]
    y[row] = sum
"""
"""Sums of rows whose length is known to their own threads."""

LENGTHS_IN_A_LOOP = """
kernel k(y: f32*, x: f32 const*, ends: i32 const*, rows: i32)
  par row in 0..rows @ [thread.y 8, block.x]
    var last: i32 = ends[row]
    var total: f32 = 0.0
    for t = 0; t < last; t + 1
      reduce(+) sum: f32 = 0.0 over k in 0..20 @ [thread.x LANES, seq]
        yield x[row * 40 + t + k]
      total = total + sum
    y[row] = total
"""
"""As many sums of a row as its threads say: they meet in a loop that other rows go round less often."""

WHILE = """
kernel k(y: f32*, x: f32 const*, ends: i32 const*, rows: i32)
  par row in 0..rows @ [thread.y 8, block.x]
    var last: i32 = ends[row]
    while last != 1
      par k in 0..20 @ [thread.x LANES, seq]
        y[row * 40 + k] = y[row * 40 + k] + x[last]
      last = last > 1 ? last - 1 : 1
    reduce(+) sum: f32 = 0.0 over k_1 in 0..20 @ [thread.x LANES, seq]
      yield x[row * 40 + k_1]
    y[row * 40 + 30] = sum
"""
"""A loop that threads without a row would never leave."""

SHARED_LENGTH = """
kernel k(y: f32*, x: f32 const*, ends: i32 const*, rows: i32)
  par row in 0..rows @ [thread.y 8, block.x]
    var last: i32 = ends[0]
    var total: f32 = 0.0
    for t = 0; t < last; t + 1
      reduce(+) sum: f32 = 0.0 over k in 0..64 @ [thread.x 64]
        yield x[row * 40 + t + k]
      total = total + sum
    y[row] = total
"""
"""The same number of sums for all rows, over a whole block's barrier: threads without a row have not read it."""


def arguments(rows: int) -> dict[str, object]:
    rng = np.random.default_rng(rows)
    return {
        "y": np.zeros(40 * rows + 200, np.float32),
        "x": rng.integers(-4, 5, 40 * rows + 200).astype(np.float32),
        "ends": rng.integers(1, 20, rows).astype(np.int32),
        "rows": rows,
    }


def checked(kernel: Kernel) -> None:
    lowered = materialise(kernel)
    for rows in (1, 8, 11):
        args = arguments(rows)
        before, after = run(kernel, args, domain="int"), run(lowered, args, domain="int")
        assert before.ok and after.ok, after.findings
        assert (before.outputs["y"] == after.outputs["y"]).all(), print_kernel(lowered)


@pytest.mark.parametrize("text", [RAGGED, WHILE])
@pytest.mark.parametrize("lanes", ["16", "32", "64"])
def test_rows_beyond_the_last_read_no_bound(text: str, lanes: str) -> None:
    checked(parse_kernel(text.replace("LANES", lanes)))


def test_a_warp_without_a_row_skips_what_its_lanes_do_together() -> None:
    checked(parse_kernel(LENGTHS_IN_A_LOOP.replace("LANES", "32")))


@pytest.mark.parametrize(("text", "code"), [(SHARED_LENGTH, "E-LOWER-GUARD"), (LENGTHS_IN_A_LOOP, "E-LOWER-DIVERGENT")])
def test_a_bound_that_only_some_of_a_block_have_is_refused(text: str, code: str) -> None:
    with pytest.raises(LoweringError) as refusal:
        materialise(parse_kernel(text.replace("LANES", "64")))
    assert refusal.value.code == code


def test_a_bound_that_all_of_a_block_have_is_none_of_the_rows() -> None:
    text = SHARED_LENGTH.replace("\n    var last: i32 = ends[0]", "").replace("t < last", "t < rows")
    checked(parse_kernel(text))
