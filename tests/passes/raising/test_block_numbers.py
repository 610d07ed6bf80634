"""Blocks whose size the host chooses are looked at with as many threads as a block may have."""

from __future__ import annotations

from ktc.ir.frontend import load
from ktc.passes.raising.candidates import _numbers


def test_a_size_that_two_axes_have_makes_no_block_that_no_device_has() -> None:
    source = """
__global__ void k(float* y, const float* x) {
  extern __shared__ float s[];
  s[threadIdx.y * blockDim.x + threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x * blockDim.x + threadIdx.y];
}
void host(float* y, const float* x, unsigned tile) { k<<<1, %s, tile * tile * 4>>>(y, x); }
"""
    square, row, flat = (
        _numbers(load(source % block, name="k.cu"))["tile"] for block in ("dim3(tile, tile)", "dim3(tile, 4)", "tile")
    )
    assert (square, row, flat) == (16, 64, 256)
