"""Grids of kernels without a launch, along axes that nothing is compared with."""

from __future__ import annotations

import ktc
from ktc.scaffold import draft

CONVOLUTION = """
__global__ void dilated(const float* x, const float* w, float* y, int N, int C, int H, int W, int K, int R, int OH,
                        int OW, int stride, int pad) {
  int ow = blockIdx.x * blockDim.x + threadIdx.x, oh = blockIdx.y, n = blockIdx.z / K, k = blockIdx.z % K;
  if (ow >= OW || oh >= OH) return;
  float sum = 0;
  for (int c = 0; c < C; c++) for (int r = 0; r < R; r++) for (int s = 0; s < R; s++) {
    int h = oh * stride - pad + r, v = ow * stride - pad + s;
    if (h < 0 || h >= H || v < 0 || v >= W) continue;
    sum += x[((n * C + c) * H + h) * W + v] * w[((k * C + c) * R + r) * R + s];
  }
  y[((n * K + k) * OH + oh) * OW + ow] = sum;
}
"""
TILES = """
__global__ void tile(float* c, int w) {
  c[(blockIdx.y * 8 + threadIdx.y) * w + blockIdx.x * 8 + threadIdx.x] = 1;
}
"""
HEADS = """
__global__ void heads(const float* q, float* y, int H, int D) {
  int h = blockIdx.x, b = blockIdx.y;
  for (int d = threadIdx.x; d < D; d += blockDim.x) y[(b * H + h) * D + d] = 2 * q[(b * H + h) * D + d];
}
"""


def test_a_block_s_number_that_is_taken_apart_counts_both_parts() -> None:
    """Padded places that the loop passes over say how large an image is, and nothing of where a launch works."""
    d = draft(ktc.loads(CONVOLUTION).kernel)
    assert d.launch is not None and d.launch.grid[2] == "N * K" and not d.roles.places
    shapes = {b: e.shape for b, e in d.shapes.items() if e is not None}
    assert (shapes["x"], shapes["w"]) == (("N", "C", "H", "W"), ("K", "C", "R", "R"))
    rows, columns = ("(H + 2 * pad - R) / stride + 1", "(W + 2 * pad - R) / stride + 1")
    assert shapes["y"] == ("N", "K", rows, columns)


def test_a_row_of_blocks_is_as_long_as_stores_step_over() -> None:
    d = draft(ktc.loads(HEADS).kernel)
    assert d.launch is not None and d.launch.grid == ("H", "blocks_y", "1")
    assert d.shapes["y"] is not None and d.shapes["y"].shape == ("blocks_y", "H", "D")


def test_a_row_of_tiles_is_not() -> None:
    d = draft(ktc.loads(TILES).kernel)
    assert d.launch is not None and d.launch.grid == ("blocks_x", "blocks_y", "1")
