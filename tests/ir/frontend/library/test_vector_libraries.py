"""Short vectors of CUTLASS and FlashInfer, which kernels use without the rest of those headers."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load

NEAREST = np.array([1.00048828125, 1.00146484375, 3.0, -0.0004885, 65504.0, 6e-8, 0.1, -7.3], np.float32)
"""Halves lie on both sides of some of these: ties go to even."""


def test_vec_t_is_loaded_converted_and_stored(execute) -> None:
    text = """#include <flashinfer/vec_dtypes.cuh>
    __global__ void k(__half* h, float* y, const float* x) {
      flashinfer::vec_t<float, 8> v; v.load(x); v.store(y); v[0] += 1.0f;
      flashinfer::vec_t<__half, 8> w; w.cast_from(v); w.store(h);
      flashinfer::vec_t<float, 4> u; u.cast_load(h + 4); u[3] *= 2.0f; u.cast_store(h + 8); u.fill(3.0f);
      u.store(y + 8); y[12] = *(u.ptr() + 1); y[13] = sizeof(w); }"""
    got = execute(text, {"h": np.zeros(12, np.float16), "y": np.zeros(14, np.float32), "x": NEAREST})
    first = NEAREST + np.array([1, 0, 0, 0, 0, 0, 0, 0], np.float32)
    halves = first.astype(np.float16)
    assert got["y"].tolist() == [*NEAREST.tolist(), 3.0, 3.0, 3.0, 3.0, 3.0, 16.0]
    assert got["h"][:8].tolist() == halves.tolist()
    assert got["h"][8:].tolist() == [*halves[4:7].tolist(), float(halves[7]) * 2]


def test_arrays_are_elementwise(execute) -> None:
    text = """#include "cutlass/array.h"
    #include "cutlass/numeric_conversion.h"
    using In = cutlass::Array<cutlass::half_t, 8>; using Sum = cutlass::Array<float, 8>;
    template <class U, class T> __device__ U converted(const T& x) {
      static_assert(T::kElements == U::kElements); U u;
      for (int i = 0; i < U::kElements; i++) u[i] = static_cast<typename U::Element>(x[i]); return u; }
    __global__ void k(float* y, const __half* h, const float* x) {
      auto const* rows = reinterpret_cast<In const*>(h);
      Sum s; s.fill(0); cutlass::NumericArrayConverter<float, cutlass::half_t, 8> widened;
      for (int r = 0; r < 2; ++r) s = s + x[r] * widened(rows[r]);
      s = converted<Sum>(rows[0]) - s; reinterpret_cast<Sum*>(y)[0] = s * converted<Sum>(rows[1]);
      y[8] = cutlass::sizeof_bits<cutlass::bfloat16_t>::value + sizeof(In); }"""
    h = np.arange(-8, 8).astype(np.float16)
    x = np.array([0.5, 2.0], np.float32)
    got = execute(text, {"y": np.zeros(9, np.float32), "h": h, "x": x})
    a, b = h[:8].astype(np.float32), h[8:].astype(np.float32)
    assert got["y"].tolist() == [*((a - (a * x[0] + b * x[1])) * b).tolist(), 32.0]


def test_conversions_that_round_otherwise_are_refused() -> None:
    text = """__global__ void k(int* y, const float* x) {
      cutlass::NumericArrayConverter<int, float, 2> c; cutlass::Array<float, 2> a;
      a[0] = a[1] = x[0]; y[0] = c(a)[1]; }"""
    with pytest.raises(KtcError, match="a conversion that is not built"):
        load(text + "\n", name="k.cu")


def test_a_files_own_definitions_come_first(execute) -> None:
    text = """namespace flashinfer {
    template <typename T, int N> struct vec_t { T d; __device__ int n() { return N + 40; } }; }
    __global__ void k(int* y) { flashinfer::vec_t<float, 2> v; y[0] = v.n(); }"""
    assert execute(text, {"y": np.zeros(1, np.int32)})["y"].tolist() == [42]
