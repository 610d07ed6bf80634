"""Block-wide scans as people write them: each raises to ``scan``, with no barrier, shuffle or shared array."""

from __future__ import annotations

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.nodes import Alloc, Barrier, HwIndex, Scan, WarpOp
from ktc.ir.text import print_kernel
from ktc.ir.types import Array
from ktc.ir.walk import all_exprs, walk
from ktc.passes.core.base import Result
from ktc.passes.lowering import materialise
from ktc.passes.raising.check.exact_check import Reference
from ktc.passes.raising.raise_ import Raise
from tests.passes.raising.scan_sources import DOUBLE_BUFFER, IN_PLACE, SCANS, SHUFFLES, SUM, SWEEPS, source


@pytest.mark.parametrize("name", SCANS)
def test_raises_to_a_scan(name: str) -> None:
    text, op, exclusive = SCANS[name]
    kernel = load(text, name="source.cu")
    outcome = Raise().run(kernel)
    assert isinstance(outcome, Result), outcome
    body, listing = outcome.kernel.body, print_kernel(outcome.kernel)
    arrays = [s.sym.type for s in walk(body) if isinstance(s, Alloc)]
    assert not any(isinstance(t, Array) and t.space == "shared" for t in arrays), listing
    assert not any(isinstance(s, Barrier) for s in walk(body))
    assert not any(isinstance(e, WarpOp | HwIndex) for e in all_exprs(body))
    assert [(s.acc.op, s.exclusive) for s in walk(body) if isinstance(s, Scan)] == [(op, exclusive)], listing
    assert not any("left:" in note for note in outcome.notes), outcome.notes
    reference = Reference(kernel, instances=4, seed=41)
    assert reference.differs(outcome.kernel) == ""
    assert reference.differs(materialise(outcome.kernel)) == ""


@pytest.mark.parametrize(
    "body, old, new",
    [
        (DOUBLE_BUFFER, "d < 128", "d < 64"),
        (IN_PLACE, "t >= d", "t > d"),
        (SHUFFLES, "d < 4", "d < 2"),
        (SHUFFLES, "OP(s[warp - 1], w)", "OP(s[0], w)"),
        (SWEEPS, "s[at] += left", "s[at] += left + left"),
    ],
    ids=["short", "one-less", "short-warps", "first-warp", "doubled"],
)
def test_a_broken_scan_is_not_one(body: str, old: str, new: str) -> None:
    """Seeded mistakes in the source: whatever is claimed computes what the source computes."""
    assert old in body
    kernel = load(source(body.replace(old, new), SUM), name="source.cu")
    outcome = Raise().run(kernel)
    if isinstance(outcome, Result):
        listing = print_kernel(outcome.kernel)
        assert Reference(kernel, instances=6, seed=17).differs(outcome.kernel) == "", listing
        assert any("left:" in note for note in outcome.notes), listing


def test_a_scan_made_of_a_tree_says_that_it_reassociates() -> None:
    """Its sums come in another order than the steps of the source: bits may differ, as those of a reduction."""
    outcome = Raise().run(load(source(DOUBLE_BUFFER, SUM), name="source.cu"))
    assert isinstance(outcome, Result) and "reassociates" in outcome.kernel.flags


ONE_WAY = """
#include <cub/block/block_scan.cuh>
__global__ void offsets(int* out, int* all, const int* x, int n) {
  using Scan = cub::BlockScan<int, 128>;
  __shared__ typename Scan::TempStorage temp;
  if (blockIdx.x % 2) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = -1;
    return;
  }
  int count = threadIdx.x < n ? x[threadIdx.x] : 0, before;
  Scan(temp).ExclusiveSum(count, before);
  if (threadIdx.x < n) all[threadIdx.x] = before;
}
void run(int* out, int* all, const int* x, int n) { offsets<<<2, 128>>>(out, all, x, n); }
"""


def test_a_scan_that_some_blocks_do_brings_its_own_result() -> None:
    outcome = Raise().run(load(ONE_WAY, name="source.cu"))
    assert isinstance(outcome, Result), outcome
    scans = [s for s in walk(outcome.kernel.body) if isinstance(s, Scan)]
    assert len(scans) == 1 and not any(isinstance(s, Alloc) for s in walk(outcome.kernel.body))
