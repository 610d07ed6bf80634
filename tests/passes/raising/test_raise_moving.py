"""raise: places that move by a fixed distance a round of a serial loop, as functions of the loop."""

from __future__ import annotations

import numpy as np

from ktc.ir.interp import run
from ktc.ir.text import print_kernel
from ktc.passes.lowering import materialise
from tests.passes.raising.raised_once import raised

LAYERS = """
__global__ void layers(const float* __restrict__ u, float* __restrict__ v, int nx, int ny, int nz) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y;
  if (i >= nx) return;
  int c = i + j * nx, xy = nx * ny;
  int north = j == 0 ? c : c - nx;
  for (int k = 0; k < nz; ++k) {
    v[c] = u[c] + u[north];
    c += xy;
    north += xy;
  }
  v[c] = 1.0f;
}
void go(const float* u, float* v, int nx, int ny, int nz) {
  layers<<<dim3((nx + 63) / 64, ny), 64>>>(u, v, nx, ny, nz);
}
"""


def test_places_that_move_with_a_loop_and_where_they_end() -> None:
    """Vectors found no places that lie side by side as long as each lane moved one of its own."""
    text = print_kernel(raised(LAYERS)[1].kernel)
    assert "v[c + k * xy] = u[c + k * xy] + u[north + k * xy]" in text
    assert "let c_end: i32 = c + max(nz, 0) * xy" in text and "+= xy" not in text


def test_a_loop_that_does_not_run_moves_nothing() -> None:
    kernel, outcome = raised(LAYERS)
    for nz in (-1, 0, 3):
        u = np.arange(max(nz, 0) * 6 + 6, dtype=np.float32)
        given = {"u": u, "v": np.zeros_like(u), "nx": 3, "ny": 2, "nz": nz}
        expected, got = (run(k, given) for k in (kernel, materialise(outcome.kernel)))
        assert expected.ok and got.ok
        np.testing.assert_array_equal(got.outputs["v"], expected.outputs["v"])
