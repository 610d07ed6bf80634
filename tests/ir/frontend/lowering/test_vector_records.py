"""Classes that are N numbers, aligned so that one access moves them: vectors, read and written whole."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import Alloc, Decl, Load, Store, i32
from ktc.ir.types import F16, F32, Vec
from ktc.ir.walk import all_exprs, walk

VEC = """
template <typename T, int N> struct alignas(sizeof(T) * N) Vec {
  T lane[N];
  __device__ T& operator[](int i) { return lane[i]; }
  __device__ const T& operator[](int i) const { return lane[i]; }
};
"""

PACKED = """
#include <cuda_fp16.h>
template <class T> struct alignas(16) Packed {
  Packed() = default;
  __device__ explicit Packed(int4 bits) { memcpy(&payload, &bits, sizeof(bits)); }
  __device__ T& operator[](int i) { return payload[i]; }
  __device__ int4 bits() const { int4 b; memcpy(&b, &payload, sizeof(b)); return b; }
  static constexpr int size = 16 / sizeof(T);
  T payload[size];
};
__global__ void k(__half* y, const __half* x) {
  const int i = threadIdx.x * Packed<__half>::size;
  Packed<__half> v{*reinterpret_cast<const int4*>(x + i)}, w;
  for (int k = 0; k < v.size; ++k) w[k] = v[k] + v[k];
  *reinterpret_cast<int4*>(y + i) = w.bits();
}
"""


def kernel(body: str, record: str = VEC, params: str = "float* y, const float* x") -> Kernel:
    return launched(load(f"{record}\n__global__ void k({params}) {{ {body} }}"), 2)


def launched(k: Kernel, threads: int) -> Kernel:
    one = (i32(1),) * 3
    return k.with_(launch=Launch(one, (i32(threads), *one[1:])))


def doubled(k: Kernel) -> None:
    """Two threads of ``k`` double eight numbers, without a finding."""
    x = np.arange(1, 9, dtype=np.float32)
    done = run(k, {"y": np.zeros_like(x), "x": x})
    assert not done.findings and np.array_equal(done.outputs["y"], 2 * x)


def widths(k: Kernel) -> set[tuple[str, int]]:
    """Name and width of all accesses of more than one element."""
    found = {(e.buffer.name, int(e.width)) for e in all_exprs(k.body) if isinstance(e, Load) and e.width != 1}  # type: ignore[arg-type]
    return found | {(s.buffer.name, int(s.width)) for s in walk(k.body) if isinstance(s, Store) and s.width != 1}  # type: ignore[arg-type]


def vectors(k: Kernel) -> list[Vec]:
    return [s.sym.type for s in walk(k.body) if isinstance(s, Decl) and isinstance(s.sym.type, Vec)]


WAYS = {
    "whole": "auto v = *reinterpret_cast<const Vec<float, 4>*>(x + 4 * threadIdx.x);"
    "for (int k = 0; k < 4; ++k) v[k] = 2.f * v[k];"
    "reinterpret_cast<Vec<float, 4>*>(y)[threadIdx.x] = v;",
    "by lane": "Vec<float, 4> v = ((const Vec<float, 4>*)x)[threadIdx.x], w = {};"
    "for (int k = 0; k < 4; ++k) w.lane[k] += v.lane[k] + v.lane[k]; *(Vec<float, 4>*)(y + threadIdx.x * 4) = w;",
    "arrays": "Vec<float, 4> v[2][1];"
    "v[1][0] = ((const Vec<float, 4>*)x)[threadIdx.x]; v[0][0] = v[1][0];"
    "for (int k = 0; k < 4; ++k) v[0][0][k] *= 2.f; ((Vec<float, 4>*)y)[threadIdx.x] = v[0][0];",
    "range": "Vec<float, 4> v = ((const Vec<float, 4>*)x)[threadIdx.x]; for (float& e : v.lane) e += e;"
    "((Vec<float, 4>*)y)[threadIdx.x] = v;",
    "a pointer to the lanes": "Vec<float, 4> v = ((const Vec<float, 4>*)x)[threadIdx.x]; float* p = v.lane;"
    "for (int k = 0; k < 4; ++k) p[k] *= 2.f; ((Vec<float, 4>*)y)[threadIdx.x] = v;",
    "halves": "Vec<float, 4> v = ((const Vec<float, 4>*)x)[threadIdx.x];"
    "for (int k = 0; k < 2; ++k) { float2 h = ((float2*)&v)[k]; h.x += h.x; h.y += h.y; ((float2*)&v)[k] = h; }"
    "((Vec<float, 4>*)y)[threadIdx.x] = v;",
    "shared": "__shared__ Vec<float, 4> s[2]; s[threadIdx.x] = ((const Vec<float, 4>*)x)[threadIdx.x];"
    "__syncthreads(); for (int k = 0; k < 4; ++k) s[threadIdx.x][k] *= 2.f;"
    "((Vec<float, 4>*)y)[threadIdx.x] = s[threadIdx.x];",
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_an_object_is_moved_whole(way: str) -> None:
    k = kernel(WAYS[way])
    doubled(k)
    assert {("x", 4), ("y", 4)} <= widths(k)


def test_objects_are_vectors_and_copies_leave_no_variables_behind() -> None:
    k = kernel(WAYS["whole"])
    assert vectors(k) == [Vec(F32, 4)] and not any(isinstance(s, Alloc) for s in walk(k.body))


def test_lanes_that_are_copied_bit_by_bit_stay_a_vector() -> None:
    k = launched(load(PACKED), 2)
    assert Vec(F16, 8) in vectors(k) and widths(k) == {("x", 8), ("y", 8)}
    x = np.arange(16, dtype=np.float16)
    done = run(k, {"y": np.zeros_like(x), "x": x})
    assert not done.findings and np.array_equal(done.outputs["y"], 2 * x)


def test_an_access_of_a_vector_must_be_aligned() -> None:
    k = kernel("*(Vec<float, 4>*)(y + 4 * threadIdx.x) = *(const Vec<float, 4>*)(x + 1);")
    x = np.arange(8, dtype=np.float32)
    assert any(f.kind == "misaligned" for f in run(k, {"y": x.copy(), "x": x}).findings)


@pytest.mark.parametrize(
    "record",
    (
        "template <typename T, int N> struct Vec { T lane[N];",  # moved a lane at a time
        "template <typename T, int N> struct alignas(64) Vec { T lane[N];",  # padded
        "template <typename T, int N> struct alignas(16) Vec { T lane[N]; int n;",
        "template <typename T, int N> struct alignas(16) Vec { T lane[N]; Vec() {} Vec(const Vec& v) {}",
    ),
)  # fmt: skip
def test_other_classes_are_none(record: str) -> None:
    own = VEC[VEC.index("  __device__ T&") :]
    k = kernel("Vec<float, 4> v; v[0] = x[0]; auto w = v; y[0] = w[0];", record + own)
    assert not vectors(k)


def test_at_least_is_an_operator_among_template_arguments() -> None:
    k = load(
        "template <int B> struct bits; template <> struct bits<16> { using type = uint4; };"
        "template <int N> __device__ void copy(float* y, const float* x) {"
        "  using t = typename bits<sizeof(float) * N >= 16 ? 16 : 4>::type; *(t*)y = *(const t*)x; }"
        "__global__ void k(float* y, const float* x) { copy<4>(y, x); }"
    )
    assert widths(k) == {("x", 4), ("y", 4)}
