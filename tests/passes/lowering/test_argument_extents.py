"""Shared memory as large as an argument says: no static array has such an extent, so the launch gives it."""

from __future__ import annotations

import pytest

from ktc.backends import emit
from ktc.ir.frontend.entry_points import load
from ktc.ir.nodes import Alloc
from ktc.ir.storage import is_shared
from ktc.ir.walk import walk
from ktc.passes.lowering import materialise
from tests.passes.checks import applied, differs

SUMS = """
__global__ void sums(const float* __restrict__ x, float* __restrict__ out, int rows, int C, int width) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (col < C) {
    float s = 0.f;
    for (int r = 0; r < rows; ++r) s += x[r * C + col];
    out[col] = s;
  }
}
void run(const float* x, float* out, int rows, int C, int width) {
  sums<<<(C + width - 1) / width, width>>>(x, out, rows, C, width);
}
"""


@pytest.mark.parametrize("blocks", ["", ", block.y 3"])
def test_parts_of_a_block_as_wide_as_an_argument(blocks: str) -> None:
    source = load(SUMS, name="source.cu")
    k = applied(source, f"raise | split-reduction{{loop=r map=[thread.y 4{blocks}, seq]}}")
    lowered = materialise(k)
    parts = [s for s in walk(lowered.body) if isinstance(s, Alloc) and is_shared(s.sym) and "shared" in s.sym.name]
    assert parts and all(s.dynamic for s in parts)
    assert lowered.launch is not None and lowered.launch.dynamic_shared is not None
    assert "[width]" not in emit(lowered, "cuda").text
    sizes = [{"rows": r, "C": c, "width": w} for r, c, w in ((1, 1, 1), (9, 5, 4), (23, 37, 16), (64, 3, 32))]
    assert differs(source, k, sizes) is None
