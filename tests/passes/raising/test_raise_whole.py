"""Ends in the midst of threads that exchange values: raised for sizes at which whole groups are before or behind it."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.nodes import Par, Reduce
from ktc.ir.text import print_expr
from ktc.ir.walk import walk
from ktc.passes.core.base import Refused, Result
from ktc.passes.raising.raise_ import Raise
from tests.passes.raising.test_raise_addresses import agree

LANES = """
__global__ void quantise(const float* __restrict__ x, signed char* __restrict__ q, float* __restrict__ s, int n,
                         int all) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= all) return;
  const int row = blockIdx.y, at = row * all + i;
  const float v = i < n ? x[row * n + i] : 0.f;
  float most = fabsf(v), sum = v;
  for (int m = 16; m > 0; m >>= 1) {
    most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, m));
    sum += __shfl_xor_sync(0xffffffff, sum, m);
  }
  q[at] = most == 0.f ? 0 : (signed char)(v + most);
  if (threadIdx.x % 32 == 0) { s[2 * (at / 32)] = most; s[2 * (at / 32) + 1] = sum; }
}
void go(const float* x, signed char* q, float* s, int n, int all, int rows) {
  quantise<<<dim3((all + 127) / 128, rows), 128>>>(x, q, s, n, all);
}
"""

PACKS = """
__global__ void store(const float* __restrict__ x, float* __restrict__ y, const long long* __restrict__ slots, int d,
                      float* __restrict__ s) {
  const long long token = blockIdx.x, slot = slots[token];
  const long long at = (blockIdx.y * blockDim.y * blockDim.x + threadIdx.y * blockDim.x + threadIdx.x) * 4;
  if (slot < 0 || at >= d) return;
  float most = 0.f;
  for (int i = 0; i < 4; i++) most = fmaxf(most, fabsf(x[token * d + at + i]));
  for (int m = 16; m > 0; m /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, m));
  for (int i = 0; i < 4; i++) y[slot * d + at + i] = x[token * d + at + i] + most;
  if (threadIdx.x == 0) s[(slot * d + at) / 128] = most;
}
void go(const float* x, float* y, const long long* slots, int d, float* s, int tokens) {
  store<<<dim3(tokens, (d + 255) / 256), dim3(32, 2)>>>(x, y, slots, d, s);
}
"""

BLOCK = """
__global__ void totals(const float* __restrict__ x, float* __restrict__ y, float* __restrict__ s, int n) {
  __shared__ float part[64];
  const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  if (i < n) {
    part[t] = x[i];
    __syncthreads();
    for (int k = 32; k > 0; k >>= 1) {
      if (t < k) part[t] += part[t + k];
      __syncthreads();
    }
    y[i] = x[i] + part[0];
    if (t == 0) s[blockIdx.x] = part[0];
  }
}
void go(const float* x, float* y, float* s, int n) { totals<<<(n + 63) / 64, 64>>>(x, y, s, n); }
"""


def outcome(source: str) -> Result | Refused:
    return Raise().run(load(source, name="source.cu"))


def assumed(found: Result | Refused) -> list[str]:
    assert isinstance(found, Result), found
    assert any(isinstance(s, Reduce) for s in walk(found.kernel.body))
    return [print_expr(a.expr) for a in found.kernel.assumptions]


X = np.arange(1, 6001, dtype=np.float32) % 37 - 11


def test_warps_before_or_behind_an_end() -> None:
    kernel, found = load(LANES, name="source.cu"), outcome(LANES)
    assert assumed(found) == ["all % 32 == 0"]
    assert isinstance(found, Result) and any("'all' is a multiple of 32" in n for n in found.notes)
    sizes = [
        {"n": n, "all": a, "rows": r}
        for n, a, r in ((1, 32, 1), (50, 64, 3), (96, 96, 2), (200, 160, 5), (300, 416, 2))
    ]
    agree(kernel, found.kernel, sizes, {"x": X, "q": np.zeros(1200, np.int8), "s": np.zeros(90, np.float32)})


def test_packs_of_warps_and_places_to_scatter_to() -> None:
    kernel, found = load(PACKS, name="source.cu"), outcome(PACKS)
    assert assumed(found) == ["d % 128 == 0"]
    assert isinstance(found, Result)
    slots = np.array([4, -1, 0, 3, 1], np.int64)
    sizes = [{"d": d, "tokens": t} for d, t in ((128, 5), (256, 1), (384, 5))]
    agree(
        kernel,
        found.kernel,
        sizes,
        {"x": X, "y": np.zeros(2000, np.float32), "s": np.zeros(20, np.float32), "slots": slots},
    )


def test_blocks_before_or_behind_an_end() -> None:
    kernel, found = load(BLOCK, name="source.cu"), outcome(BLOCK)
    assert assumed(found) == ["n % 64 == 0"]
    assert isinstance(found, Result)
    sizes = [{"n": n} for n in (64, 128, 640)]
    agree(kernel, found.kernel, sizes, {"x": X, "y": np.zeros(640, np.float32), "s": np.zeros(10, np.float32)})


def test_a_tree_under_a_condition_of_the_whole_block() -> None:
    source = BLOCK.replace("if (i < n)", "if (blockIdx.x % 3 < 2)")
    kernel, found = load(source, name="source.cu"), outcome(source)
    assert assumed(found) == []
    assert isinstance(found, Result) and not any("left: " in n for n in found.notes)
    agree(kernel, found.kernel, [{"n": n} for n in (64, 128, 640)],
          {"x": X, "y": np.zeros(640, np.float32), "s": np.zeros(10, np.float32)})  # fmt: skip


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        (LANES, "if (i >= all)", "if (i + 1 >= all)"),  # one before: no multiple puts whole warps before it
        (LANES, "if (i >= all)", "if (i > all)"),
        (LANES, "if (i >= all)", "if (threadIdx.x % 32 >= all)"),  # lanes, whichever the warp
        (LANES, "if (i >= all)", "if (i >= all - blockIdx.y)"),  # rows end elsewhere
        (LANES, "128>>>", "48>>>"),  # a block begins in the midst of what is a warp's otherwise
        (PACKS, "at >= d)", "at + threadIdx.x >= d)"),
        (BLOCK, "if (i < n)", "if (i < n && t < 63)"),  # one never comes to the barrier
        (BLOCK, "if (i < n)", "if (i + t < n)"),
    ],
)
def test_ends_that_cut_through_groups_at_every_size(source: str, old: str, new: str) -> None:
    assert source.count(old) == 1
    found = outcome(source.replace(old, new))
    if isinstance(found, Result):  # as threads at most
        assert not found.kernel.assumptions
        assert not any(isinstance(s, Par) and any(lv.kind == "lane" for lv in s.dist) for s in walk(found.kernel.body))
        assert not any(isinstance(s, Reduce) for s in walk(found.kernel.body))


def test_an_end_too_far_in_the_source_is_no_end_of_groups() -> None:
    """The last warp of a multiple of 32 sums up 31 lanes only: the kernel with whole groups computes something else."""
    wrong = LANES.replace("if (i >= all) return;", "if (i >= all) return; if (i == all - 1) return;")
    found = outcome(wrong)
    assert isinstance(found, Refused), found.notes
