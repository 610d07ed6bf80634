"""Pointers, arrays, vectors, shared memory, atomics."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.fold import evaluate
from ktc.ir.frontend.entry_points import load
from ktc.ir.nodes import Alloc, Load, Store
from ktc.ir.types import F16, F32, I8, I32, I64, Array
from ktc.ir.walk import all_exprs, walk


def test_row_pointer_is_resolved_to_its_buffer(cu):
    k = cu("""__global__ void k(float* out, const float* in, int d) {
        const float* row = in + blockIdx.x * d;
        for (int i = threadIdx.x; i < d; i += blockDim.x) out[i] = row[i]; }""")
    (load,) = [e for e in all_exprs(k.body) if isinstance(e, Load)]
    assert load.buffer.name == "in" and load.index[0].type == I64


def test_negative_offset_from_unsigned_product(execute):
    """The unsigned product is widened before the signed index is added: (u64)u + (i64)i, not a 32-bit wrap."""
    text = "__global__ void k(int* out, const int* in, unsigned u, int i) { const int* p = in + u * 2; out[0] = p[i]; }"
    args = {"out": np.zeros(1, np.int32), "in": np.arange(10, dtype=np.int32), "u": 2, "i": -3}
    assert execute(text, args)["out"][0] == 1


def test_moving_pointers(execute):
    text = """__global__ void k(int* out, const int* a, int n) {
        const int* p = a; const int* end = a + n; int s = 0;
        while (p != end) { s += *p++; }
        out[0] = s; out[1] = (int)(p - a);
        int* q = out + 2; *q++ = 5; *q = 6; q[1] = q[-1] + 1; }"""
    got = execute(text, {"out": np.zeros(5, np.int32), "a": np.arange(4, dtype=np.int32), "n": 4})["out"]
    assert list(got) == [6, 4, 5, 6, 6]


def test_vector_loads_of_half(cu, execute):
    text = """#include <cuda_fp16.h>
    __global__ void k(__half* out, const __half* in) {
        float4 raw = *reinterpret_cast<const float4*>(in + threadIdx.x * 8);
        __half* h = reinterpret_cast<__half*>(&raw);
        #pragma unroll
        for (int j = 0; j < 8; ++j) h[j] = h[j] + h[j];
        reinterpret_cast<float4*>(out)[threadIdx.x] = raw; }
    void f(__half* o, const __half* i) { k<<<1, 2>>>(o, i); }"""
    k = cu(text)
    assert any(isinstance(e, Load) and e.width == 8 and e.buffer.name == "in" for e in all_exprs(k.body))
    assert any(isinstance(s, Store) and s.width == 8 for s in walk(k.body))
    x = np.arange(16).astype(np.float16)
    np.testing.assert_array_equal(execute(text, {"out": np.zeros(16, np.float16), "in": x})["out"], x + x)


def test_half2_intrinsics(execute):
    text = """__global__ void k(__half* out, const __half* in) {
        const half2* v = reinterpret_cast<const half2*>(in);
        half2 a = v[0], b = v[1];
        half2 c = __hfma2(a, b, __float2half2_rn(1.f));
        float2 f = __half22float2(c + a);
        out[0] = __float2half(f.x); out[1] = __high2half(c); }"""
    x = np.array([1.5, 2, 3, -4], np.float16)
    assert list(execute(text, {"out": np.zeros(2, np.float16), "in": x})["out"]) == [7.0, -7.0]


def test_float4_members(execute):
    text = """__global__ void k(float4* out, const float4* in) {
        float4 v = in[0]; v.x += in[1].w; v.z = 9.f; out[0] = v; out[1] = make_float4(v.y, v.y, 0, in[0].x);
        out[1].z = 3.f; }"""
    got = execute(text, {"out": np.zeros((2, 4), np.float32), "in": np.arange(8, dtype=np.float32).reshape(2, 4)})[
        "out"
    ]
    assert list(np.asarray(got).reshape(-1)) == [7, 1, 9, 3, 1, 1, 3, 0]


def test_shared_memory_static_and_two_dimensional(execute):
    text = """__global__ void k(float* out, const float* in) {
        __shared__ float tile[4][5]; __shared__ float total;
        int x = threadIdx.x, y = threadIdx.y;
        tile[y][x] = in[y * 4 + x];
        if (x == 0 && y == 0) total = 10.f;
        __syncthreads();
        out[y * 4 + x] = tile[x][y] + total; }
    void f(float* out, const float* in) { dim3 b(4, 4); k<<<1, b>>>(out, in); }"""
    x = np.arange(16, dtype=np.float32)
    got = execute(text, {"out": np.zeros(16, np.float32), "in": x})["out"]
    np.testing.assert_array_equal(np.asarray(got).reshape(4, 4), x.reshape(4, 4).T + 10)


POOL = """__global__ void k(int* y, const int* x, int n) {
        __shared__ char pool[1024];
        int* first = (int*)pool;
        int* second = (int*)&first[32 * 4];
        int t = threadIdx.x;
        first[t] = x[t];
        second[t] = x[t] * n;
        __syncthreads();
        y[t] = first[31 - t] + second[31 - t]; }
    void f(int* y, const int* x, int n) { k<<<1, 32>>>(y, x, n); }"""


def test_an_array_of_shared_bytes_is_one_of_what_is_kept_there(cu, execute):
    (alloc,) = [s for s in cu(POOL).body if isinstance(s, Alloc)]
    assert (
        isinstance(alloc.sym.type, Array)
        and alloc.sym.type.elem == I32
        and evaluate(alloc.sym.type.shape[0], {}) == 256
    )
    x = np.arange(32, dtype=np.int32)
    got = execute(POOL, {"y": np.zeros(32, np.int32), "x": x, "n": 3})["y"]
    np.testing.assert_array_equal(got, x[::-1] * 4)


@pytest.mark.parametrize("use", ["pool[t] = 1;", "((short*)pool)[t] = 1;", "*(int*)&pool[t] = 1;"])
def test_shared_bytes_that_are_several_things_stay_bytes(cu, use: str):
    (alloc,) = [s for s in cu(POOL.replace("__syncthreads();", f"{use} __syncthreads();")).body if isinstance(s, Alloc)]
    assert isinstance(alloc.sym.type, Array) and alloc.sym.type.elem == I8


def test_dynamic_shared_bytes_that_hold_records_become_their_elements(cu, execute):
    """A row of records starts at a place that has a name; what is stored and read are whole floats all the same."""
    text = """struct alignas(16) Four { float v[4]; };
    __global__ void k(float* y, const float* x, int n) {
        extern __shared__ char raw[];
        Four* mine = reinterpret_cast<Four*>(raw) + (1 + threadIdx.y) * n / 4;
        int i = threadIdx.x * 4;
        Four f;
        for (int j = 0; j < 4; ++j) f.v[j] = x[threadIdx.y * n + i + j];
        mine[i / 4] = f;
        __syncthreads();
        const Four g = mine[i / 4];
        for (int j = 0; j < 4; ++j) y[threadIdx.y * n + i + j] = g.v[3 - j]; }
    void f(float* y, const float* x, int n) { k<<<1, dim3(n / 4, 2), 3 * n * sizeof(float)>>>(y, x, n); }"""
    (alloc,) = [s for s in cu(text).body if isinstance(s, Alloc) and s.dynamic]
    assert isinstance(alloc.sym.type, Array) and alloc.sym.type.elem == F32
    x = np.arange(16, dtype=np.float32)
    got = execute(text, {"y": np.zeros(16, np.float32), "x": x, "n": 8})["y"]
    np.testing.assert_array_equal(np.asarray(got).reshape(4, 4), x.reshape(4, 4)[:, ::-1])


def test_dynamic_shared_bytes_become_floats(cu, execute):
    text = """__global__ void k(float* out, int n) {
        extern __shared__ __align__(16) unsigned char smem[];
        float* buf = reinterpret_cast<float*>(smem);
        buf[threadIdx.x] = threadIdx.x; __syncthreads();
        out[threadIdx.x] = buf[n - 1 - threadIdx.x]; }
    void f(float* out, int n) { k<<<1, n, n * sizeof(float)>>>(out, n); }"""
    (alloc,) = [s for s in cu(text).body if isinstance(s, Alloc)]
    assert alloc.dynamic and alloc.align == 16 and isinstance(alloc.sym.type, Array) and alloc.sym.type.elem == F32
    assert list(execute(text, {"out": np.zeros(4, np.float32), "n": 4})["out"]) == [3, 2, 1, 0]


@pytest.mark.parametrize("second, expected", [("float", 2.0), ("int", 0x40000000), ("unsigned char", 0)])
def test_all_dynamic_shared_arrays_are_the_same_memory(cu, execute, second, expected):
    """Each ``extern __shared__`` name starts at the first byte, in the kernel and in what it calls."""
    text = f"""__device__ void fill(int i) {{ extern __shared__ float a[]; a[i] = i + 2.f; }}
    __global__ void k(float* out, int n) {{
        fill(threadIdx.x); __syncthreads();
        if (n > 1) {{ extern __shared__ {second} b[]; if (threadIdx.x == 0) out[0] = b[0]; }} }}
    void f(float* out, int n) {{ int threads = n * 2; k<<<1, threads, threads * sizeof(float)>>>(out, n); }}"""
    kernel = cu(text)
    (alloc,) = [s for s in walk(kernel.body) if isinstance(s, Alloc)]
    assert alloc.dynamic
    assert execute(text, {"out": np.zeros(1, np.float32), "n": 2})["out"][0] == expected
    assert "extern __shared__" in emit(kernel, "cuda").text


def test_private_arrays(execute):
    text = """__global__ void k(int* out) { int a[2][3] = {{1, 2}, {4}}; const int t[] = {5, 6, 7};
        int* p = &a[0][0]; p[5] = 9; int s = 0;
        for (int i = 0; i < 2; ++i) for (int j = 0; j < 3; ++j) s = s * 10 + a[i][j];
        out[0] = s; out[1] = t[2] + sizeof(t) / sizeof(t[0]); }"""
    assert list(execute(text, {"out": np.zeros(2, np.int32)})["out"]) == [120409, 10]


def test_atomics_return_the_old_value(execute):
    text = """__global__ void k(int* out, int* ticket) {
        int mine = atomicAdd(ticket, 1); out[mine] = 1; atomicMax(&out[4], (int)threadIdx.x); atomicCAS(out + 5, 0,
        7); }"""
    got = execute(text, {"out": np.zeros(6, np.int32), "ticket": np.zeros(1, np.int32)}, threads=4)
    assert list(got["out"]) == [1, 1, 1, 1, 3, 7] and got["ticket"][0] == 4


def test_warp_shuffle_sum(execute):
    text = """template <typename T> __device__ T warp_sum(T v) {
        #pragma unroll
        for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
        return v; }
    __global__ void k(float* out, const float* in) { float s = warp_sum(in[threadIdx.x]);
    if (threadIdx.x == 0) out[0] = s;
        unsigned b = __ballot_sync(0xffffffffu, in[threadIdx.x] > 29.f); if (threadIdx.x == 0) out[1] = __popc(b); }"""
    got = execute(text, {"out": np.zeros(2, np.float32), "in": np.arange(32, dtype=np.float32)}, threads=32)["out"]
    assert list(got) == [496.0, 2.0]


def test_cache_hints(cu):
    k = cu("__global__ void k(float* o, const float* a) { __stcs(o + 1, __ldg(&a[2]) + __ldcs(a)); }")
    assert {e.cache for e in all_exprs(k.body) if isinstance(e, Load)} == {"ldg", "cs"}
    (store,) = [s for s in k.body if isinstance(s, Store)]
    assert store.cache == "cs" and k.param("o").sym.type.elem == F32 != F16


def test_atomics_on_the_members_of_one_shared_vector(execute):
    text = """__global__ void k(double* o) {
      __shared__ double4 sum; if (threadIdx.x == 0) sum = make_double4(0, 1, 2, 3); __syncthreads();
      atomicAdd(&sum.y, o[threadIdx.x]); __syncthreads(); o[threadIdx.x] = sum.x + sum.y + sum.w; }
    void h(double* o) { k<<<1, 4>>>(o); }"""
    np.testing.assert_array_equal(execute(text, {"o": np.array([1.0, 2, 3, 4])})["o"], [14.0] * 4)


def test_dynamic_shared_memory_that_an_instance_does_not_use_is_none() -> None:
    text = """template <int N> __global__ void k(float* p) {
                extern __shared__ float room[];
                if constexpr (N > 32) { room[threadIdx.x] = p[threadIdx.x]; __syncthreads(); p[threadIdx.x] = room[0]; }
                else p[threadIdx.x] += 1;
              }
              void go(float* p) { k<32><<<1, 32>>>(p); k<64><<<1, 64, 256>>>(p); }"""
    for threads, used in ((32, False), (64, True)):
        kernel = load(text, name="k.cu", template={"N": threads})
        assert any(isinstance(s, Alloc) for s in walk(kernel.body)) is used
