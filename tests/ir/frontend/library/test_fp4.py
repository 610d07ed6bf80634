"""4-bit floats and scale factors of cuda_fp4.h and cuda_fp8.h in the interpreter, against ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ktc.ir.frontend import load
from ktc.ir.interp import run

SOURCE = """#include <cuda_fp4.h>
__global__ void k(const float* x, unsigned char* code, float* back, unsigned char* scale, float* power, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  const __nv_fp4_e2m1 f(x[i]);
  code[i] = f.__x;
  back[i] = float(f);
  const __nv_fp8_e8m0 s(x[i]);
  scale[i] = s.__x;
  power[i] = float(s);
}
void host(const float* x, unsigned char* code, float* back, unsigned char* scale, float* power, int n) {
  k<<<1, 128>>>(x, code, back, scale, power, n);
}
"""


def test_numbers_midpoints_and_what_is_beside_them():
    values = np.arange(8, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    middles = (values[1:] + values[:-1]) / 2
    x = np.concatenate([values, middles, np.nextafter(middles, 9), np.nextafter(middles, 0), [7, 1e9, 3e-30, np.inf]])
    x = np.concatenate([x, -x]).astype(np.float32)
    n = len(x)
    bytes_, floats = np.zeros(n, np.uint8), np.zeros(n, np.float32)
    args = {"x": x, "code": bytes_, "back": floats, "scale": bytes_.copy(), "power": floats.copy(), "n": n}
    got = run(load(SOURCE, name="k.cu"), args).outputs
    want = np.clip(x, -6, 6).astype(ml_dtypes.float4_e2m1fn)
    assert (got["code"] == want.view(np.uint8)).all()
    assert (got["back"] == want.astype(np.float32)).all()
    some = (x != 0) & np.isfinite(x)
    exponent = np.ceil(np.log2(np.abs(x[some]).astype(np.float64)))
    assert (got["scale"][some] == exponent + 127).all() and (got["power"][some] == 2.0**exponent).all()
    assert set(got["scale"][x == 0]) == {0} and set(got["scale"][np.isinf(x)]) == {254}


def test_pairs_and_quadruples_keep_the_first_in_the_low_bits():
    text = """#include <cuda_fp4.h>
    __global__ void k(const float* x, unsigned char* two, unsigned short* four) {
      *two = __nv_fp4x2_e2m1(make_float2(x[0], x[1])).__x;
      *four = __nv_fp4x4_e2m1(make_float4(x[0], x[1], x[2], x[3])).__x;
    }
    void host(const float* x, unsigned char* two, unsigned short* four) { k<<<1, 1>>>(x, two, four); }"""
    args = {"x": np.float32([0.5, 1, -6, 3]), "two": np.zeros(1, np.uint8), "four": np.zeros(1, np.uint16)}
    got = run(load(text, name="k.cu"), args).outputs
    assert got["two"][0] == 0x21 and got["four"][0] == 0x5F21
