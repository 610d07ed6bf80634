"""Votes of a warp: how many lanes say yes, whether any or all do, and how many do before each."""

from __future__ import annotations

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.nodes import Atomic, Reduce, WarpOp
from ktc.ir.text import print_kernel
from ktc.ir.walk import all_exprs, walk
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.warps.votes import with_summed_votes

from .raised_once import raised

ROWS = """
__global__ void rows(const float* x, int* out, int n, float t) {
  const int lane = threadIdx.x & 31, row = blockIdx.x * 4 + threadIdx.x / 32;
  bool found = START;
  for (int i = lane; i < n; i += 32) found = found OP x[row * n + i] > t;
  if (VOTE) {
    if (lane == 0) out[row] = 1;
  } else if (lane == 0) out[row] = 0;
}
void run(const float* x, int* out, int n, float t, int blocks) { rows<<<blocks, 128>>>(x, out, n, t); }
"""
COUNT = """
__global__ void above(const float* x, int* out, int n, float t) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const bool p = i < n && x[i] > t;
  const unsigned m = __ballot_sync(0xffffffff, p);
  if ((threadIdx.x & 31) == 0) atomicAdd(out, __popc(m));
}
void run(const float* x, int* out, int n, float t) { above<<<(n + 255) / 256, 256>>>(x, out, n, t); }
"""


@pytest.mark.parametrize("start, op, vote", [
    ("false", "||", "__any_sync(0xffffffff, found)"),
    ("true", "&&", "__all_sync(0xffffffff, found)"),
    ("false", "||", "__ballot_sync(0xffffffff, found) != 0"),
])  # fmt: skip
def test_whether_any_or_all_elements_of_a_row_do(start: str, op: str, vote: str) -> None:
    kernel, outcome = raised(ROWS.replace("START", start).replace("OP", op).replace("VOTE", vote))
    (reduction,) = (s for s in walk(outcome.kernel.body) if isinstance(s, Reduce))
    assert reduction.accs[0].op == ("&" if op == "&&" else "|"), print_kernel(outcome.kernel)
    assert not Reference(kernel).differs(outcome.kernel)


def test_how_many_lanes_do_is_a_sum() -> None:
    kernel, outcome = raised(COUNT)
    (reduction,) = (s for s in walk(outcome.kernel.body) if isinstance(s, Reduce))
    assert reduction.accs[0].op == "+" and any(isinstance(s, Atomic) for s in walk(outcome.kernel.body))
    assert not Reference(kernel).differs(outcome.kernel)


def test_how_many_do_before_each_is_a_running_sum() -> None:
    source = COUNT.replace(
        "if ((threadIdx.x & 31) == 0) atomicAdd(out, __popc(m));",
        "out[i] = __popc(m & ((1u << (threadIdx.x & 31)) - 1)) * 100 + __popc(m & ((2u << (threadIdx.x & 31)) - 1));",
    )
    kernel = load(source, name="source.cu")
    summed = with_summed_votes(kernel)
    kinds = [e.kind for e in all_exprs(summed.body) if isinstance(e, WarpOp)]
    assert kinds == ["shfl_up"] * 5 and not Reference(kernel).differs(summed)


def test_votes_of_some_lanes_are_left() -> None:
    kernel = load(COUNT.replace("0xffffffff", "0x0000ffff"), name="source.cu")
    assert with_summed_votes(kernel).body == kernel.body
