"""A kernel that goes back and forth stores to another buffer each way; what is for one way alone has one store."""

from __future__ import annotations

import dataclasses

from ktc.ir.text import parse_kernel
from ktc.ir.workload import ArgSpec
from ktc.search.verification import verify
from tests.search.verification.gate_samples import _workload, scalar

BOTH_WAYS = """
kernel carry(y: f32*, x: f32*, n: i32, forward: i32)
  launch grid(cdiv(n, 64)) block(64)
  let i: i32 = i32(blockIdx.x) * 64 + i32(threadIdx.x)
  if i < n
    if forward != 0
      y[i] = x[i] * 2.0
    else
      x[i] = y[i] * 2.0
"""
ONE_WAY = BOTH_WAYS[: BOTH_WAYS.index("    if forward")] + "    y[i] = x[i] * 2.0\n"
ASSUMED = ONE_WAY.replace("  let i", "  assume forward != 0\n  let i", 1)
ARGS = (
    ArgSpec("y", "f32", "inout", ("n",)),
    ArgSpec("x", "f32", "inout", ("n",)),
    scalar("n", "n"),
    ArgSpec("forward", "i32", "scalar", value=1),
)
WORKLOAD = _workload("carry", ARGS, {"n": 4096})


def test_a_store_of_the_other_way_may_be_left_out_of_what_is_for_one_way() -> None:
    assert verify(parse_kernel(BOTH_WAYS), parse_kernel(ASSUMED), WORKLOAD).status == "TESTED"


def test_and_of_nothing_else() -> None:
    both = verify(parse_kernel(BOTH_WAYS), parse_kernel(ONE_WAY), WORKLOAD)
    back = dataclasses.replace(WORKLOAD, args=(*ARGS[:3], ArgSpec("forward", "i32", "scalar", value=0)))
    assert both.status == verify(parse_kernel(BOTH_WAYS), parse_kernel(ONE_WAY), back).status == "REJECTED"
