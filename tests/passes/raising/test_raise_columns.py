"""Columns added up by threads above each other: trees along ``threadIdx.y``, warps that are rows of a block."""

from __future__ import annotations

import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.text import print_kernel
from ktc.passes.core.base import Refused
from ktc.passes.raising.raise_ import Raise
from tests.passes.raising.test_raise_rows import lowered, outcome

TREE = """
__global__ void columns(const float* __restrict__ x, float* __restrict__ out, int rows, int cols) {
  __shared__ float tile[8][16];
  int col = blockIdx.x * 16 + threadIdx.x, ty = threadIdx.y;
  float s = 0.0f;
  if (col < cols)
    for (int r = ty; r < rows; r += 8) s += x[r * cols + col];
  tile[ty][threadIdx.x] = s;
  __syncthreads();
  for (int o = 4; o > 0; o >>= 1) {
    if (ty < o) tile[ty][threadIdx.x] += tile[ty + o][threadIdx.x];
    __syncthreads();
  }
  if (ty == 0 && col < cols) out[col] = tile[0][threadIdx.x];
}
void launch(const float* x, float* out, int rows, int cols) {
  columns<<<(cols + 15) / 16, dim3(16, 8)>>>(x, out, rows, cols);
}
"""


def test_a_tree_of_rows_is_a_reduction_of_each_column() -> None:
    form = outcome(TREE).kernel
    text = print_kernel(form)
    assert "par col in 0..cols @ [thread.x 16, block.x]" in text, text
    assert "over r in 0..rows @ [thread.y 8, seq]" in text and "shared" not in text, text
    code = lowered(form)
    assert "shared f32[8, 16]" in code and code.count("barrier") >= 2, code


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("o = 4", "o = 2"),  # half of the rows are left out
        ("tile[ty + o][threadIdx.x]", "tile[ty + o][threadIdx.x ^ 1]"),  # another column's
        ("= tile[0]", "= tile[1]"),
        ("s += x", "s = x"),
    ],
)
def test_what_is_almost_a_column_is_no_reduction(old: str, new: str) -> None:
    found = Raise().run(load(TREE.replace(old, new), name="source.cu"))
    assert isinstance(found, Refused) or "over r in 0..rows" not in print_kernel(found.kernel)


WARPS = """
__global__ void bias(const float* __restrict__ g, float* __restrict__ out, int rows, int cols) {
  __shared__ float part[256];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, step = blockDim.x / 32;
  const float* col = g + blockIdx.x * 32 + lane;
  float s = 0.0f;
  for (int r = warp; r < rows; r += step) s += col[r * cols];
  part[lane + warp * 32] = s;
  __syncthreads();
  s = 0.0f;
  if (warp == 0) {
    for (int j = 0; j < step; j++) s += part[lane + j * 32];
    out[blockIdx.x * 32 + lane] = out[blockIdx.x * 32 + lane] + s;
  }
}
void launch(const float* g, float* out, int rows, int cols) { bias<<<cols / 32, 256>>>(g, out, rows, cols); }
"""


def test_warps_are_rows_of_a_block() -> None:
    text = print_kernel(outcome(WARPS).kernel)
    assert "over r in 0..rows @ [thread.y 8, seq]" in text and "part" not in text, text


def test_a_warp_left_out_is_noticed() -> None:
    found = Raise().run(load(WARPS.replace("j = 0", "j = 1"), name="source.cu"))
    assert isinstance(found, Refused) or "over r in 0..rows" not in print_kernel(found.kernel)


MOMENTS = """
__global__ void moments(const float* __restrict__ x, float* __restrict__ mean, float* __restrict__ var, int rows,
                        int cols) {
  __shared__ float a[4][32], b[4][32];
  int col = blockIdx.x * blockDim.x + threadIdx.x, tx = threadIdx.x, ty = threadIdx.y;
  float s = 0.0f, q = 0.0f;
  if (col < cols)
    for (int r = ty; r < rows; r += blockDim.y) { float v = x[r * cols + col]; s += v; q += v * v; }
  a[ty][tx] = s; b[ty][tx] = q;
  for (int o = blockDim.y / 2; o > 0; o /= 2) {
    __syncthreads();
    if (ty < o) { a[ty][tx] += a[ty + o][tx]; b[ty][tx] += b[ty + o][tx]; }
  }
  if (ty == 0 && col < cols) {
    float m = a[0][tx] / rows;
    mean[col] = m;
    var[col] = b[0][tx] / rows - m * m;
  }
}
void launch(const float* x, float* mean, float* var, int rows, int cols) {
  moments<<<(cols + 31) / 32, dim3(32, 4)>>>(x, mean, var, rows, cols);
}
"""


def test_statistics_of_columns_are_one_sweep() -> None:
    text = print_kernel(outcome(MOMENTS).kernel)
    assert text.count("reduce(") == 1 and "over r in 0..rows @ [thread.y 4, seq]" in text, text
    assert "if" not in text.split("par col")[1], text


ATOMIC = """
__global__ void spread(const float* __restrict__ x, float* __restrict__ out, int rows, int cols) {
  __shared__ float tile[4][32];
  int col = blockIdx.x * 32 + threadIdx.x;
  float s = 0.0f;
  if (col < cols)
    for (int r = blockIdx.y * 4 + threadIdx.y; r < rows; r += gridDim.y * 4) s += x[r * cols + col];
  tile[threadIdx.y][threadIdx.x] = s;
  __syncthreads();
  if (threadIdx.y == 0 && col < cols) {
    for (int k = 1; k < 4; ++k) s += tile[k][threadIdx.x];
    atomicAdd(&out[col], s);
  }
}
void launch(const float* x, float* out, int rows, int cols) {
  spread<<<dim3((cols + 31) / 32, 3), dim3(32, 4)>>>(x, out, rows, cols);
}
"""


def test_blocks_above_each_other_still_add_theirs() -> None:
    text = print_kernel(outcome(ATOMIC).kernel)
    assert "par col in 0..cols @ [thread.x 32, block.x]" in text and "over ty in 0..4 @ [thread.y 4]" in text, text
    assert "atomic add out[col], s" in text and "shared" not in text, text


TURNED = """
__global__ void turned(const float* __restrict__ x, float* __restrict__ out, int rows, int cols) {
  __shared__ float tile[32][32];
  int col = blockIdx.x * 32 + threadIdx.x;
  float s = 0.0f;
  if (col < cols)
    for (int r = threadIdx.y; r < rows; r += 32) s += x[r * cols + col];
  tile[threadIdx.x][threadIdx.y] = s;
  __syncthreads();
  float sum = tile[threadIdx.y][threadIdx.x];
  for (int i = 16; i > 0; i >>= 1) sum += __shfl_down_sync(0xffffffff, sum, i);
  int mine = blockIdx.x * 32 + threadIdx.y;
  if (threadIdx.x == 0 && mine < cols) out[mine] = sum;
}
void launch(const float* x, float* out, int rows, int cols) {
  turned<<<(cols + 31) / 32, dim3(32, 32)>>>(x, out, rows, cols);
}
"""


def test_a_tile_that_warps_add_up_the_other_way_round_is_made_by_all_of_them_first() -> None:
    text = print_kernel(outcome(TURNED).kernel)
    assert "reduce(+)" in text and "shfl" not in text, text
    assert text.count("@ [thread.y 32") == 2, text


def test_a_tile_that_is_added_up_the_same_way_round_is_another_sum() -> None:
    """Each row of the tile has parts of all columns."""
    found = Raise().run(
        load(TURNED.replace("tile[threadIdx.y][threadIdx.x]", "tile[0][threadIdx.x]"), name="source.cu")
    )
    assert isinstance(found, Refused) or "tile[ty" not in print_kernel(found.kernel)
