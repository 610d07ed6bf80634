"""Rows of a block that keeps its parts in untyped shared memory, one exchange after another, for every so many rows."""

from __future__ import annotations

from ktc.ir.frontend.entry_points import load
from tests.passes.checks import applied, body_of

TREE = """
      for (int left = blockDim.x; left != 1; left = (left + 1) >> 1) {
        __syncthreads();
        int far = threadIdx.x + ((left + 1) >> 1);
        if (threadIdx.x < (left >> 1)) { COMBINE }
      }
      __syncthreads();
"""
ROWS = """
__global__ void normalised(float* __restrict__ o, const float* __restrict__ a, int size, int cols) {
  extern __shared__ unsigned char parts[];
  int rows = size / cols;
  for (int b = 0; b < rows; b += gridDim.x) {
    int j = b + blockIdx.x;
    if (j < rows) {
      float* top = (float*)parts;
      float* total = (float*)parts;
      top[threadIdx.x] = -1000.f;
      for (int t = threadIdx.x; t < cols; t += blockDim.x)
        if (a[j * cols + t] > top[threadIdx.x]) top[threadIdx.x] = a[j * cols + t];
      MOST
      float most = top[0];
      __syncthreads();
      total[threadIdx.x] = 0.f;
      for (int t = threadIdx.x; t < cols; t += blockDim.x) {
        float e = most - a[j * cols + t];
        o[j * cols + t] = e;
        total[threadIdx.x] += e;
      }
      SUM
      float sum = total[0];
      for (int t = threadIdx.x; t < cols; t += blockDim.x) o[j * cols + t] *= sum;
    }
    __syncthreads();
  }
}
void go(float* o, const float* a, int size, int cols) {
  int threads = min(cols, 512);
  normalised<<<min(size / cols, 4096), threads, threads * 4>>>(o, a, size, cols);
}
"""
MOST = TREE.replace("COMBINE", "if (top[far] > top[threadIdx.x]) top[threadIdx.x] = top[far];")
SUM = TREE.replace("COMBINE", "total[threadIdx.x] += total[far];")


def raised(source: str) -> str:
    return body_of(applied(load(source, name="source.cu"), "raise"))


def test_every_exchange_is_a_reduction_whatever_a_thread_does_beside_its_part() -> None:
    text = raised(ROWS.replace("MOST", MOST).replace("SUM", SUM))
    assert "par j in 0..size / cols @ [block.x" in text, "every so many rows a block"
    assert "reduce(max) most: f32 = -(1000.0) over t in 0..cols @ [thread.x" in text, text
    assert "reduce(+) sum: f32 = 0.0 over t_1 in 0..cols @ [thread.x" in text, "the loop stores, too"
    assert "array " not in text and "for " not in text, text


def test_a_part_that_begins_with_what_an_exchange_left_is_no_sum_of_its_own() -> None:
    source = ROWS.replace("MOST", MOST).replace("SUM", SUM)
    left = source.replace("total[threadIdx.x] = 0.f;", "")
    assert left != source and "reduce(+) sum: f32 = 0.0" not in raised(left)
