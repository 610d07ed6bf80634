"""Raised loops are not called as loops that they go around."""

from __future__ import annotations

from ktc.ir.frontend import load
from ktc.ir.nodes import For, Par
from ktc.ir.walk import walk
from tests.passes.checks import applied, differs

SOURCE = """
__global__ void product(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n,
                        int depth) {
  int tx = (blockIdx.x * blockDim.x + threadIdx.x) * 4, ty = (blockIdx.y * blockDim.y + threadIdx.y) * 4;
  float sum[16] = {};
  for (int i = 0; i < depth; i++)
    for (int p = 0; p < 4; p++)
      for (int q = 0; q < 4; q++) sum[p * 4 + q] += a[(ty + p) * depth + i] * b[i * n + tx + q];
  for (int p = 0; p < 4; p++)
    for (int q = 0; q < 4; q++) c[(ty + p) * n + tx + q] = sum[p * 4 + q];
}
void go(const float* a, const float* b, float* c, int m, int n, int depth) {
  product<<<dim3(n / 32, m / 32), dim3(8, 8)>>>(a, b, c, m, n, depth);
}
"""
TILED = (
    "tile{{loops={0},{1} sizes=32,32}} | map{{{0}=[vec 4, thread.y 8] {1}=[vec 4, thread.x 8]}}"
    " | tile{{loops=i sizes=4 tail=cut}} | register-tile{{loop=i_tile.*}}"
)


def test_loops_without_a_name_leave_the_source_its_own() -> None:
    kernel = load(SOURCE, name="k.cu")
    raised = applied(kernel, "raise")
    threads = [s.var.name for s in walk(raised.body) if isinstance(s, Par)]
    (inner,) = (s.var for s in walk(raised.body) if isinstance(s, For))
    assert inner.name == "i" and len(threads) == 2 and "i" not in {x.split("_")[0] for x in threads}
    tiled = applied(kernel, f"raise | {TILED.format(*threads)}")
    assert differs(kernel, tiled, [{"m": 64, "n": 32, "depth": 7}]) is None
