"""Packed vectors that travel as integers: the variables that carry them are of the type that they carry."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.fold import i32
from ktc.ir.frontend.entry_points import load
from ktc.ir.interp import run
from ktc.ir.kernel import Launch
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


GUARDED = """
#include <cuda_fp16.h>
template <typename T> __device__ void fetch(void* to, const void* from, bool there) {
  uint2* word = reinterpret_cast<uint2*>(to);
  asm volatile("{\\n\\t.reg .pred p;\\n\\tsetp.ne.b32 p, %3, 0;\\n\\tmov.b32 %0, 0;\\n\\tmov.b32 %1, 0;\\n"
               "\\t@p ld.global.v2.u32 {%0, %1}, [%2];\\n}\\n"
               : "=r"(word[0].x), "=r"(word[0].y) : "l"(from), "r"((int)there));
}
__device__ void put(void* to, const void* from) {
  const uint2* word = reinterpret_cast<const uint2*>(from);
  asm volatile("st.global.cg.v2.u32 [%0], {%1, %2};\\n" :: "l"(to), "r"(word[0].x), "r"(word[0].y));
}
template <typename T> __global__ void twice(T* out, const T* in, int n) {
  constexpr int N = 8 / sizeof(T);
  int i = threadIdx.x * N;
  T v[N];
  fetch<T>(v, in + i, i < n);
  for (int k = 0; k < N; ++k) v[k] += v[k];
  if (i < n) put(out + i, v);
}
template __global__ void twice<TYPE>(TYPE*, const TYPE*, int);
"""


@pytest.mark.parametrize(("name", "dtype"), [("float", np.float32), ("__half", np.float16)])
def test_words_that_part_on_the_way_are_what_they_carry(name: str, dtype: type) -> None:
    """PTX fills a word for each lane, with zeros where nothing is read."""
    kernel = load(GUARDED.replace("TYPE", name), name="source.cu", template={"T": name})
    text = print_kernel(kernel)
    assert "as.bit" not in text and "u32x2" not in text, text
    x = np.arange(1, 9, dtype=dtype)
    for domain in ("float", "int"):
        got = run(kernel.with_(launch=_one_block(4)), {"out": np.zeros_like(x), "in": x, "n": 8}, domain=domain)
        assert got.ok and got.outputs["out"].tolist() == (2 * x).tolist()


@pytest.mark.parametrize(
    ("word", "first"),
    [
        ("w[0].x ^ 0x80000000u", [-1.5, 2.0]),
        ("w[0].x == 0x3fc00000u ? 0x40400000u : w[0].x", [3.0, -2.0]),
        ("__byte_perm(w[0].x, w[0].y, 0x7654)", [2.5, 4.0]),
    ],
    ids=["computed-on", "a-number", "mixed"],
)
def test_words_that_are_more_than_moved_stay_words(word: str, first: list[float]) -> None:
    source = f"""__global__ void k(float* out, const float* in) {{
      const uint2* w = reinterpret_cast<const uint2*>(in + threadIdx.x * 2);
      uint2 v; v.x = {word}; v.y = w[0].y;
      *reinterpret_cast<uint2*>(out + threadIdx.x * 2) = v;
    }}"""
    kernel = load(source, name="source.cu")
    assert "u32x2" in print_kernel(kernel)
    x = np.array([1.5, 2.5, -2.0, 4.0], dtype=np.float32)
    got = run(kernel.with_(launch=_one_block(2)), {"out": np.zeros_like(x), "in": x})
    assert got.ok and got.outputs["out"].tolist() == [first[0], 2.5, first[1], 4.0]


def test_the_lanes_of_a_word_are_given_one_by_one() -> None:
    source = """__global__ void k(float* out, const float* in) {
      uint2 v = make_uint2(0u, 0u);
      if (in[4] > 0.0f) { v.y = __float_as_uint(in[threadIdx.x]); v.x = __float_as_uint(in[3 - threadIdx.x]); }
      *reinterpret_cast<uint2*>(out + threadIdx.x * 2) = v;
    }"""
    kernel = load(source, name="source.cu")
    text = print_kernel(kernel)
    assert "as.bit" not in text and "u32x2" not in text, text
    x = np.array([1, 2, 3, 4, 5], dtype=np.float32)
    got = run(kernel.with_(launch=_one_block(2)), {"out": np.zeros(4, np.float32), "in": x})
    assert got.ok and got.outputs["out"].tolist() == [4, 1, 3, 2]


@pytest.mark.parametrize(
    ("bits", "number"), [("0x7c00fc00u", "f16x2{-inf, inf}"), ("0x3c00u", "f16x2{1.0, 0.0}"), ("0x7e000000u", "")]
)
def test_words_of_numbers_are_numbers_but_for_those_that_are_none(bits: str, number: str) -> None:
    source = f"""
    #include <cuda_fp16.h>
    __global__ void k(__half2* out, int n) {{
      unsigned w = {bits};
      if (n > 4) w = 0x4000c000u;
      out[threadIdx.x] = *reinterpret_cast<__half2*>(&w);
    }}"""
    text = print_kernel(load(source, name="source.cu")).replace("_f16", "")
    assert (number in text and "as.bit" not in text) if number else "as.bit" in text, text


CELLS = """
__global__ void k(float* out, const float* in) {
  KIND cells[SIZE];
  float* own = reinterpret_cast<float*>(cells);
  for (int i = 0; i < 4; ++i) own[i] = 2 * in[4 * threadIdx.x + i];
  MORE
  for (int i = 0; i < 4; ++i) out[4 * threadIdx.x + i] = own[3 - i];
}"""


@pytest.mark.parametrize(
    ("kind", "size"), [("unsigned short", 8), ("unsigned", 4), ("unsigned long long", 2), ("uint4", 1)]
)
def test_arrays_of_words_hold_what_they_carry(kind: str, size: int) -> None:
    kernel = load(CELLS.replace("KIND", kind).replace("SIZE", str(size)).replace("MORE", ""), name="source.cu")
    text = print_kernel(kernel)
    assert "as.bit" not in text and "f32" in text.split("array cells: ")[1].split()[0], text
    x = np.arange(1, 9, dtype=np.float32)
    for domain in ("float", "int"):
        got = run(kernel.with_(launch=_one_block(2)), {"out": np.zeros_like(x), "in": x}, domain=domain)
        assert got.ok and got.outputs["out"].tolist() == [8, 6, 4, 2, 16, 14, 12, 10]


@pytest.mark.parametrize("more", ["cells[1] &= 0x7fff;", "cells[5] = 0;", "if (cells[3] == 7) out[0] = 1;"])
def test_arrays_of_words_that_are_looked_at_stay_so(more: str) -> None:
    source = CELLS.replace("KIND", "unsigned short").replace("SIZE", "8").replace("MORE", more)
    kernel = load(source, name="source.cu")
    assert "array cells: u16[8]" in print_kernel(kernel)
    x = np.array([1, -2, 3.25, 4], dtype=np.float32)
    words = (2 * x).view(np.uint16).copy()
    if "cells[1]" in more:
        words[1] &= 0x7FFF
    if "cells[5]" in more:
        words[5] = 0
    got = run(kernel.with_(launch=_one_block(1)), {"out": np.zeros_like(x), "in": x})
    assert got.ok and got.outputs["out"].tolist() == words.view(np.float32)[::-1].tolist()


def _one_block(threads: int) -> Launch:
    return Launch((i32(1), i32(1), i32(1)), (i32(threads), i32(1), i32(1)))
