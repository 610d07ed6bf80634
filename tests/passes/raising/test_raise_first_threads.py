"""Reductions over the first few threads of a block: as many as an integer says that all of them share."""

from __future__ import annotations

import pytest

from ktc.ir.nodes import Reduce, WarpOp
from ktc.ir.text import print_kernel
from ktc.ir.walk import all_exprs, walk
from ktc.passes.core.base import Result
from ktc.passes.raising.check.exact_check import Reference
from tests.passes.raising.raised_once import outcome_of, raised

CUB = """
#include <cub/cub.cuh>
__global__ void k(float* out, const float* x, int n) {
  using Reduce = cub::BlockReduce<float, 128>;
  __shared__ typename Reduce::TempStorage temp;
  float v = 7.0f;
  if (threadIdx.x < n) v = x[blockIdx.x * n + threadIdx.x];
  v = Reduce(temp).Reduce(v, OP(), VALID);
  if (threadIdx.x == 0) out[blockIdx.x] = v;
}
void launch(float* out, const float* x, int rows, int n) { k<<<rows, 128>>>(out, x, n); }
"""

TREE = """
__global__ void k(int* out, const int* x, int n) {
  __shared__ int part[64];
  int v = 1 << 20;
  if (threadIdx.x < n) v = x[blockIdx.x * n + threadIdx.x];
  part[threadIdx.x] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < 64; ++i) if (i < n) part[0] = START;
    out[blockIdx.x] = part[0];
  }
}
void launch(int* out, const int* x, int rows, int n) { k<<<rows, 64>>>(out, x, n); }
"""


@pytest.mark.parametrize(
    ("source", "op"),
    [
        (CUB.replace("OP", "cub::Max").replace("VALID", "n"), "max"),
        (CUB.replace("OP", "cub::Sum").replace("VALID", "n < 128 ? n : 128"), "+"),
        (TREE.replace("START", "part[0] + part[i]"), "+"),
    ],
    ids=["cub-max", "cub-sum", "serial"],
)
def test_threads_beyond_a_number_bring_nothing_in(source: str, op: str) -> None:
    kernel, outcome = raised(source)
    listing = print_kernel(outcome.kernel)
    assert {a.op for s in walk(outcome.kernel.body) if isinstance(s, Reduce) for a in s.accs} == {op}, listing
    assert not any(isinstance(e, WarpOp) for e in all_exprs(outcome.kernel.body)), listing
    assert not any("left:" in note for note in outcome.notes), listing
    assert any("of the first" in note for note in outcome.notes), outcome.notes
    assert Reference(kernel, instances=6, seed=23).differs(outcome.kernel, given=outcome.kernel.assumptions) == ""


def test_a_sum_that_is_one_for_some_numbers_only_is_none() -> None:
    """Of all threads but the last that counts."""
    kernel, outcome = outcome_of(TREE.replace("i < n", "i + 1 < n").replace("START", "part[0] + part[i]"))
    if isinstance(outcome, Result):
        assert not any("of the first" in note for note in outcome.notes)
        assert Reference(kernel, instances=6, seed=23).differs(outcome.kernel, given=outcome.kernel.assumptions) == ""
