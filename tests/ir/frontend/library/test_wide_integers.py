"""Integers of 128 bits move 16 bytes, and a vector of the host that an object has is no hindrance."""

from __future__ import annotations

import numpy as np

from ktc.ir.frontend import load
from ktc.ir.interp import run

COPY = """
#include <vector>
using whole_t = __int128_t;
struct Options { int shift; std::vector<int> others; };
__global__ void copy(const float* x, float* y, Options options, int n) {
  __shared__ float kept[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n / 4) {
    *(whole_t*)(kept + 4 * threadIdx.x) = reinterpret_cast<const whole_t*>(x)[i];
    *((__uint128_t*)(y + options.shift) + i) = *(__uint128_t*)&kept[4 * threadIdx.x];
  }
}
void go(const float* x, float* y, Options options, int n) { copy<<<(n / 4 + 63) / 64, 64>>>(x, y, options, n); }
"""


def test_sixteen_bytes_are_moved_at_once() -> None:
    kernel = load(COPY, name="k.cu")
    x = np.arange(64, dtype=np.float32)
    unused = {p.sym.name: np.zeros(1, np.int32) for p in kernel.params if "others" in p.sym.name}
    result = run(kernel, {"x": x, "y": np.zeros(68, np.float32), "options_shift": 4, "n": 64, **unused})
    assert result.findings == [] and np.array_equal(result.outputs["y"][4:], x)
