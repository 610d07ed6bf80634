"""Atomics that one lane makes for its warp, as an atomic of each lane that wants one."""

from __future__ import annotations

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.nodes import Atomic, WarpOp
from ktc.ir.text import print_kernel
from ktc.ir.walk import all_exprs, walk
from ktc.passes.core.base import Refused
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.raise_ import Raise
from ktc.passes.raising.warps.aggregated_atomics import with_single_atomics

from .raised_once import raised

HEAD = """
__global__ void keep(const int* x, int* count, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
  BODY
}
void run(const int* x, int* count, int* out, int n) { keep<<<(n + 127) / 128, 128>>>(x, count, out, n); }
"""
OF_A_BALLOT = """
  const bool p = i < n && x[i] > 0;
  const unsigned m = __ballot_sync(0xffffffff, p);
  int at = 0;
  if (lane == 0) at = atomicAdd(count, __popc(m));
  at = __shfl_sync(0xffffffff, at, 0);
  if (p) out[at + __popc(m & ((1u << lane) - 1))] = x[i];
"""
OF_A_BRANCH = """
  if (i < n && x[i] > 0) {
    const unsigned active = __activemask();
    const int first = __ffs(active) - 1;
    int at = 0;
    if (lane == first) at = atomicAdd(count, __popc(active));
    at = __shfl_sync(active, at, first);
    out[at + __popc(active & ((1u << lane) - 1))] = x[i];
  }
"""
OF_ONE_ADDRESS = """
  int* p = count + threadIdx.x % n;
  int same;
  same = __match_any_sync(0xffffffff, (unsigned long long)p);
  const int first = __ffs(same) - 1;
  int at = 0;
  if (lane == first) at = atomicAdd(p, __popc(same));
  at = __shfl_sync(same, at, first);
"""


@pytest.mark.parametrize("body", [OF_A_BALLOT, OF_A_BRANCH, OF_ONE_ADDRESS], ids=["ballot", "branch", "address"])
def test_each_lane_makes_its_own(body: str) -> None:
    kernel, outcome = raised(HEAD.replace("BODY", body))
    text = print_kernel(outcome.kernel)
    (atomic,) = (s for s in walk(outcome.kernel.body) if isinstance(s, Atomic))
    assert not any(isinstance(e, WarpOp) for e in all_exprs(outcome.kernel.body)), text
    assert (atomic.dst is None) == (body is OF_ONE_ADDRESS) and "thread.x 128" in text
    assert not Reference(kernel).differs(outcome.kernel)


def test_a_counter_of_one_warp_keeps_the_order_of_its_lanes() -> None:
    """Of one warp alone the first comes first, in every launch: what it keeps is in order."""
    kernel = load(HEAD.replace("BODY", OF_A_BALLOT).replace("(n + 127) / 128, 128", "1, 32"), name="source.cu")
    alone = with_single_atomics(kernel)
    assert alone is not kernel and "another order" in Reference(kernel).differs(alone)
    assert isinstance(Raise().run(kernel), Refused)


@pytest.mark.parametrize("old, new", [
    ("__popc(m));", "__popc(m) + 1);"),  # adds something else
    ("if (lane == 0) at", "if (x[0] == 0) at"),  # no one lane
    ("atomicAdd(", "atomicMax("),
])  # fmt: skip
def test_other_atomics_are_left(old: str, new: str) -> None:
    assert old in OF_A_BALLOT
    kernel = load(HEAD.replace("BODY", OF_A_BALLOT.replace(old, new)), name="source.cu")
    assert with_single_atomics(kernel) is kernel
