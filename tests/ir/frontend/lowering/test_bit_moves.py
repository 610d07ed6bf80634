"""Packed vectors that travel as integers: the variables that carry them are of the type that they carry."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.text import print_kernel

PACKED = """
struct alignas(16) Packed {
  __device__ Packed() {}
  __device__ explicit Packed(int4 bits) { memcpy(payload, &bits, sizeof(bits)); }
  __device__ int4 bits() const { int4 b; memcpy(&b, payload, sizeof(payload)); BITS return b; }
  __device__ float& operator[](int i) { return payload[i]; }
  float payload[4];
};
__global__ void scale(float* out, const float* in, int n) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (i >= n) return;
  Packed p(__ldcs(reinterpret_cast<const int4*>(in + i))), q;
  for (int k = 0; k < 4; ++k) q[k] = 3 * p[k];
  *reinterpret_cast<int4*>(out + i) = q.bits();
}
void launch(float* out, const float* in, int n) { scale<<<(n + 255) / 256, 64>>>(out, in, n); }
"""


def test_what_only_carries_floats_is_floats() -> None:
    kernel = load(PACKED.replace("BITS", ""), name="source.cu")
    text = print_kernel(kernel)
    assert "as.bit" not in text and "i32x4" not in text and text.count("f32x4") >= 2, text
    x = np.arange(8, dtype=np.float32)
    for domain in ("float", "int"):  # the exact domains have no bit patterns
        got = run(kernel, {"out": np.zeros_like(x), "in": x, "n": 8}, domain=domain)
        assert got.ok and got.outputs["out"].tolist() == (3 * x).tolist()


@pytest.mark.parametrize("bits", ["b.x ^= 1;", "if (b.y == 0) b.z = 5;", "b = make_int4(b.x, b.y, b.z, 7);"])
def test_what_is_computed_on_stays_integers(bits: str) -> None:
    assert "i32x4" in print_kernel(load(PACKED.replace("BITS", bits), name="source.cu"))


def test_numbers_spelt_by_their_bits_are_numbers_and_a_nan_keeps_its_bits() -> None:
    source = """__global__ void k(float* x, double* y) {
      x[0] = x[1] < __int_as_float(0xff800000) ? __int_as_float(0x7f800000) : __uint_as_float(0x3fc00000u);
      x[2] = __int_as_float(0x7fc00001);
      y[0] = __longlong_as_double(0x7ff0000000000000LL);
    }"""
    text = print_kernel(load(source, name="source.cu"))
    assert "x[1] < -inf ? inf : 1.5" in text and "y[0] = inf" in text
    assert text.count("as.bit") == 1 and "2143289345" in text
