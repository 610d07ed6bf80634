"""Optional outputs on the CPU: a kernel asks whether it was given the buffer."""

from __future__ import annotations

import numpy as np

import ktc
from ktc.backends.runtimes import open_runtime

SOURCE = """
__global__ void mean(float* out, float* sum, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    out[i] = in[i] * 0.5f;
    if (sum != nullptr) sum[i] = in[i];
  }
}
void go(float* o, float* s, const float* i, int n) { mean<<<(n + 63) / 64, 64>>>(o, s, i, n); }
"""


def test_a_buffer_that_is_given_is_not_null() -> None:
    runtime = open_runtime("numba")
    x = np.arange(100, dtype=np.float32)
    args = {"in": x, "out": np.zeros_like(x), "sum": np.zeros_like(x), "n": 100}
    on = {k: runtime.to_device(v) if isinstance(v, np.ndarray) else v for k, v in args.items()}
    runtime.compile(ktc.loads(SOURCE).lower("numba")).launch(on)
    runtime.synchronize()
    assert np.array_equal(runtime.to_host(on["out"], x), x * 0.5)
    assert np.array_equal(runtime.to_host(on["sum"], x), x)
