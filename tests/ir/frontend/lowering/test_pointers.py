"""Pointer variables that move between buffers, pointers kept in memory, comparisons, pointers to arrays."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.backends.emitter import emit
from ktc.ir.frontend import load
from ktc.ir.text import print_kernel
from ktc.ir.verifier import verify
from ktc.passes.core.base import Refused
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script


def test_swapped_in_a_loop(execute):
    text = """__global__ void k(float* a, float* b, int n) { float* p = a; float* q = b; int i = threadIdx.x;
        for (int t = 0; t < n; ++t) { q[i] = p[i] * 2.f; float* tmp = p; p = q; q = tmp; } p[i] += 1.f; }"""
    for n in range(4):
        a, b = np.float32([1, 2]), np.float32([0, 0])
        got = execute(text, {"a": a.copy(), "b": b.copy(), "n": n}, threads=2)
        for _ in range(n):
            b, a = a, a * 2
            a, b = b, a
            a, b = (b, a)
        want = {True: got["a"], False: got["b"]}[n % 2 == 0]
        np.testing.assert_array_equal(want, np.float32([1, 2]) * 2**n + 1)


def test_chosen_at_run_time(execute):
    text = """struct S { int v; int pad; };
    __device__ void set(int* p, int v) { *p++ = v; *p = v + 1; }
    __global__ void k(int* a, int* b, S* s, S* t, int c) { const int* from = c > 1 ? a + 1 : b; int* to;
        if (c & 1) to = a; else { to = b; to += 2; }
        set(to, from[0] + 10); (c ? s : t)->v = c; int* none = nullptr; if (c == 3) none = b;
        if (none) *none = 99; (c > 1 ? a : b)[3] += 1000; }"""
    for c in range(4):
        a, b = [1, 2, 3, 4, 5], [10, 20, 30, 40, 50]
        got = execute(text, {"a": np.int32(a), "b": np.int32(b), "s": np.zeros(2, np.int32),
                             "t": np.zeros(2, np.int32), "c": c})  # fmt: skip
        value = (a[1] if c > 1 else b[0]) + 10
        at, k = (a, 0) if c & 1 else (b, 2)
        at[k : k + 2] = [value, value + 1]
        if c == 3:
            b[0] = 99
        (a if c > 1 else b)[3] += 1000
        assert list(got["a"]) == a and list(got["b"]) == b
        assert got["s" if c else "t"][0] == c


def test_assigned_before_use_only(execute):
    text = """__global__ void k(int* out, const int* a, int n) { const int *p, *end; p = a; end = a + n; int s = 0;
        do { s += *p; } while (++p < end); out[0] = s; out[1] = p == end; }"""
    args = {"out": np.zeros(2, np.int32), "a": np.arange(5, dtype=np.int32), "n": 5}
    assert list(execute(text, args)["out"]) == [10, 1]


def test_differences_count_pointees_of_any_size(execute):
    """Pointers to less than an element of the memory that they point into, as the bytes between two addresses."""
    text = """__global__ void k(int* out, const int* a, const float4* v, int n) {
        const int* p = a + n; const float4* w = v + n;
        out[0] = (const char*)p - (const char*)a; out[1] = (const short*)a - (const short*)p;
        out[2] = (const long long*)p - (const long long*)a; out[3] = (const float*)w - (const float*)v;
        out[4] = (const float2*)w - (const float2*)v; out[5] = (const char*)w - (const char*)v; out[6] = p - a; }"""
    args = {"out": np.zeros(7, np.int32), "a": np.arange(8, dtype=np.int32), "v": np.zeros((4, 4), np.float32), "n": 2}
    assert list(execute(text, args)["out"]) == [8, -4, 1, 8, 4, 32, 2]


def test_unknown_targets_are_refused(refuses):
    text = "__global__ void k(int* a, int* b, int n) { int* p = a; for (int i = 0; i < n; ++i) p = *&b + i; *p = 1; }"
    refuses(text.replace("*&b", "(n, b)"), "E-UNSUPPORTED-POINTER")


def test_pointers_in_memory(cu):
    """A table of pointers that the kernel changes: typed in CUDA and OpenCL; no pass touches such a kernel, and its
    text reads back."""
    text = """__global__ void k(float** rows, float* out, int n) {
        float* r = rows[blockIdx.x]; out[n] = r[n] + rows[n][1]; rows[n] = out; }"""
    k = cu(text)
    printed = emit(k, "cuda").text
    assert "float* pointer = (float*)rows[blockIdx.x];" in printed
    again = emit(load(printed, name="k.cu"), "cuda").text
    assert [r for r in again.splitlines() if r[:2] != "//"] == [r for r in printed.splitlines() if r[:2] != "//"]
    refused = apply_script(k, parse_script("licm")).refused
    assert isinstance(refused, Refused) and refused.code == "E-POINTER-VALUE"


def test_pointers_to_rows_and_arrays(execute):
    text = """__device__ int sum(const int (*rows)[3], int n) { int s = 0;
        for (int i = 0; i < n; ++i) for (int j = 0; j < 3; ++j) s += rows[i][j]; return s; }
    __global__ void k(int* out, const int (*m)[3]) { __shared__ int t[2][3]; int* row = t[1]; row[2] = 5;
        t[0][0] = 1; t[0][1] = t[0][2] = t[1][0] = t[1][1] = 0; int (*p)[3] = t; ++p; (*p)[0] = 7;
        out[0] = sum(m + 1, 2); out[1] = sum(t, 2); int* q = &t[0][0]; q += 3; out[2] = *q; }"""
    m = np.arange(9, dtype=np.int32)
    assert list(execute(text, {"out": np.zeros(3, np.int32), "m": m})["out"]) == [33, 13, 7]


def test_addresses_as_numbers(cu):
    k = cu("""__global__ void k(float* a, int* out) { out[0] = (unsigned long long)(a + 1) % 16 == 0;
        out[1] = ((size_t)a & 15) == 0; }""")
    assert "(unsigned long long)&a[1] % 16" in emit(k, "cuda").text


def test_a_store_to_one_lane_through_a_pointer_to_scalars() -> None:
    """The value keeps the lane's type; a reinterpretation as the whole vector would have another size."""
    k = load("__global__ void k(float2* o) { float* q = (float*)o; q[threadIdx.x + 1] += 2.0f; }", name="k.cu")
    assert verify(k) == []
    assert "as.bit" not in print_kernel(k)


def test_a_reinterpretation_of_another_size_is_no_ir() -> None:
    from ktc.ir.nodes import Cast, Load, Store
    from ktc.ir.types import F32, Vec

    k = load("__global__ void k(float* o) { o[0] = o[1]; }", name="k.cu")
    (s,) = k.body
    assert isinstance(s, Store) and isinstance(s.value, Load)
    wrong = k.with_(body=(Store(s.buffer, s.index, Cast(Vec(F32, 2), s.value, "bit"), 2),))
    assert "V-TYPE" in {f.code for f in verify(wrong)}


def test_a_pointer_without_a_value_is_not_null():
    text = "__global__ void k(int* y) { int* p; y[threadIdx.x] = p == nullptr; }"
    kernel = load(text, name="k.cu")
    assert "var p: u64\n" in print_kernel(kernel)  # no value: nothing may be concluded from it


def test_copies_as_compilers_spell_them(execute):
    text = """struct S { short x, y; };
    __global__ void k(S* in, S* out, int* m) {
        int i = threadIdx.x;
        __builtin_memcpy(&out[i], &in[i], sizeof(S));
        __builtin_memset(&m[i], 0, sizeof(int)); }"""
    args = {"in": np.arange(8, dtype=np.int16), "out": np.zeros(8, np.int16), "m": np.full(4, 7, np.int32)}
    got = execute(text, args, threads=4)
    assert got["out"].tolist() == list(range(8)) and got["m"].tolist() == [0] * 4


def test_a_null_pointer_that_is_used_traps():
    for use in ("y[i] = p[i];", "y[i] = *p;", "y[i] = *(p + 3);", "p[i] = 1;", "memcpy(p, y, 8);", "memset(p, 0, 4);"):
        kernel = load(f"__global__ void k(int* y) {{ int* p = 0; int i = threadIdx.x; {use} }}", name="k.cu")
        assert "null_access()" in print_kernel(kernel) and "__trap();" in emit(kernel, "cuda").text


CHOSEN = """\
__device__ int word(const unsigned char* in, const int* scales, int at) {
  const unsigned* q = (const unsigned*)(in + at);
  return (int)(q[0] & 15) * __ldg(scales + at / 4);
}
__global__ void k(const unsigned char* a, const int* sa, const unsigned char* b, const int* sb, int* y, int* z,
                  int* c) {
  __shared__ unsigned char copy[64];
  const int t = threadIdx.x;
  const bool even = t % 2 == 0;
  const unsigned char* in = even ? a : b;
  const int* scales = even ? sa : sb;
  int* out = even ? y : z;
  __pipeline_memcpy_async(&copy[t * 4], in + t * 4, 4, even ? 0 : 4);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  __stcs(out + t, word(in, scales, t * 4) + copy[t * 4] + 1000 * copy[t * 4 + 3]);
  atomicAdd(even ? c : c + 1, 1);
  const int old = atomicExch(even ? y + 16 + t : z + 16, t + 1);
  if (even) y[32 + t] = old;
}
"""


def test_accesses_through_a_pointer_into_one_of_several_buffers(execute) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 255, (2, 64), np.uint8)
    sa, sb = rng.integers(-9, 9, (2, 16)).astype(np.int32)
    args = {"a": a, "sa": sa, "b": b, "sb": sb, "y": np.full(48, 7, np.int32), "z": np.zeros(48, np.int32)}
    got = execute(CHOSEN, {**args, "c": np.zeros(2, np.int32)}, threads=16)
    for t in range(16):
        data, scale = (b, sb) if t % 2 else (a, sa)
        first, last = (0, 0) if t % 2 else (int(data[t * 4]), int(data[t * 4 + 3]))  # odd threads copy zeros
        want = int(data[t * 4] & 15) * int(scale[t]) + first + 1000 * last
        assert got["z" if t % 2 else "y"][t] == want
    assert got["c"].tolist() == [8, 8]
    assert got["y"][16:32:2].tolist() == list(range(1, 17, 2))
    assert got["y"][32:48:2].tolist() == [7] * 8


def test_objects_with_arrays_are_copied_from_and_to_one_of_several_buffers(execute) -> None:
    head = "struct Words { unsigned data[2]; }; struct Vec { Words m; };\n"
    params = "unsigned* p, unsigned* q, unsigned* y, int n"
    body = (
        "Words* in = reinterpret_cast<Words*>(n > 2 ? p : q); Vec a; a.m = in[1]; Vec b{in[0]}; Words c = in[1]; "
        "Vec d; d.m = c; if (n) { in[0] = d.m; Vec* v = reinterpret_cast<Vec*>(in); v[1] = b; } "
        "y[0] = a.m.data[0]; y[1] = b.m.data[1]; y[2] = d.m.data[1];"
    )
    start = {"p": np.array([1, 2, 3, 4], np.uint32), "q": np.array([5, 6, 7, 8], np.uint32)}
    for n, want in ((3, [3, 2, 4]), (1, [7, 6, 8])):
        given = {**{k: v.copy() for k, v in start.items()}, "y": np.zeros(3, np.uint32), "n": n}
        got = execute(f"{head}__global__ void k({params}) {{ {body} }}", given)
        assert got["y"].tolist() == want
        changed, kept = ("p", "q") if n > 2 else ("q", "p")
        assert got[changed].tolist() == [*start[changed][2:], *start[changed][:2]]
        assert got[kept].tolist() == start[kept].tolist()


@pytest.mark.parametrize("cast", ["const_cast<float*>(a)", "(float*)a"])
def test_what_const_is_cast_away_of_may_be_written(cast: str) -> None:
    source = f"""
__device__ void twice(float* p, int i) {{ p[i] *= 2.0f; }}
__global__ void k(const float* a, const float* b, float* o) {{
  twice({cast}, threadIdx.x);
  o[threadIdx.x] = a[threadIdx.x] + *const_cast<float*>(b);
}}
"""
    kernel = load(source)
    assert [(p.sym.type.const, p.readonly) for p in kernel.params] == [(False, False), (True, True), (False, False)]
    assert "__global__ void k(float* a, const float* b, float* o)" in emit(kernel, "cuda").text
