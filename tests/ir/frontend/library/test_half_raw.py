"""The records of the bits of 16-bit floats: braces and members hold bits, conversions move them."""

from __future__ import annotations

import numpy as np

SOURCE = """\
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__device__ __half2 pair() { constexpr __half2_raw p = {0x0000, 0x7C00}; return __half2(p); }
__device__ __half one() { constexpr __half_raw o = {0x3C00}; return __half(o); }
__device__ __nv_bfloat16 wide_one() { constexpr __nv_bfloat16_raw o = {0x3F80}; return __nv_bfloat16(o); }
__device__ __nv_bfloat162 wide_pair() { __nv_bfloat162_raw p = {0x3F80, 0xFF80}; return __nv_bfloat162(p); }
__device__ __half made(unsigned short bits) { __half_raw r; r.x = bits; return r; }
__device__ __half placed(unsigned short bits) { __half h; reinterpret_cast<__half_raw*>(&h)->x = bits; return h; }
__global__ void k(float* y, unsigned short* u) {
  const __half2 h = pair();
  y[0] = __half2float(h.x);
  y[1] = __half2float(h.y);
  y[2] = __half2float(one());
  y[3] = __bfloat162float(wide_one());
  y[4] = __bfloat162float(wide_pair().y);
  y[5] = __half2float(made(0x4000));
  y[6] = __half2float(placed(0x3800));
  y[7] = __half2float(__half(__half_raw{0xBC00}));
  u[0] = static_cast<__half_raw>(__float2half(2.0f)).x;
  u[1] = ((__half_raw)one()).x;
  __half_raw copy = one();
  u[2] = copy.x;
  u[3] = __nv_bfloat16_raw(wide_one()).x;
}
"""


def test_bits_are_bits(execute) -> None:
    got = execute(SOURCE, {"y": np.zeros(8, np.float32), "u": np.zeros(4, np.uint16)})
    assert got["y"].tolist() == [0.0, float("inf"), 1.0, 1.0, float("-inf"), 2.0, 0.5, -1.0]
    assert got["u"].tolist() == [0x4000, 0x3C00, 0x3C00, 0x3F80]
