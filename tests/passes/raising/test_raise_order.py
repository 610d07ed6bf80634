"""What raising prints does not hang on what the process has read before: symbols get other numbers, texts stay."""

from __future__ import annotations

import pytest

import ktc
from ktc.ir.nodes import fresh
from ktc.ir.types import I32

CARRIED = """\
__global__ void k(float* out, const float* x, const float* y, int n) {
  extern __shared__ float tile[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float a = x[i], b = y[i], c = a * b, d = a - b, e = a + 2 * b;
  for (int t = 0; t < n; t += 64) {
    tile[threadIdx.x] = x[t + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < 64; ++j) { a += tile[j] * b; c += tile[j] - d; e = fmaxf(e, c * tile[j]); }
    __syncthreads();
  }
  out[i] = a + b + c + d + e;
}
void launch(float* out, float* x, float* y, int n) { k<<<n / 64, 64, 256>>>(out, x, y, n); }
"""


@pytest.mark.parametrize("source", ["carried", "sgemm_tiled", "transpose_tiled", "rmsnorm", "softmax"])
def test_other_numbers_of_symbols_change_no_text(source: str) -> None:
    texts = set()
    for before in (0, 1, 3, 10, 30):
        for _ in range(before):
            fresh("other", I32)
        program = ktc.loads(CARRIED) if source == "carried" else ktc.load(source)
        texts.add(program.apply("raise").text())
    assert len(texts) == 1
