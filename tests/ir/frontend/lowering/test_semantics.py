"""C++ semantics of expressions, checked by running them."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.parametrize(
    ("expr", "out", "variables", "expected"),
    [
        ("a - b", "unsigned", {"a": ("unsigned", 1), "b": ("unsigned", 2)}, 2**32 - 1),
        ("a + 1u", "unsigned", {"a": ("unsigned", 2**32 - 1)}, 0),
        ("a < b", "int", {"a": ("int", -1), "b": ("unsigned", 1)}, 0),  # -1 becomes 4294967295
        ("a < b", "int", {"a": ("int", -1), "b": ("int", 1)}, 1),
        ("a / b", "int", {"a": ("int", -7), "b": ("int", 2)}, -3),
        ("a % b", "int", {"a": ("int", -7), "b": ("int", 2)}, -1),
        ("a * b", "long long", {"a": ("long long", 2**20), "b": ("int", 2**20)}, 2**40),
        ("(long long)a * b", "long long", {"a": ("int", 2**20), "b": ("int", 2**20)}, 2**40),
        ("a + b", "int", {"a": ("unsigned char", 200), "b": ("unsigned char", 100)}, 300),  # promoted to int
        ("(unsigned char)(a + b)", "int", {"a": ("unsigned char", 200), "b": ("unsigned char", 100)}, 44),
        ("a >> 1", "int", {"a": ("int", -3)}, -2),
        ("a >> 1", "unsigned", {"a": ("unsigned", 2**31)}, 2**30),
        ("~a", "int", {"a": ("unsigned char", 0)}, -1),
        ("-a", "int", {"a": ("unsigned char", 1)}, -1),
        ("!a", "int", {"a": ("float", 0.0)}, 1),
        ("a ? 3 : 4", "int", {"a": ("int", 2)}, 3),
        ("a + b", "float", {"a": ("int", 1), "b": ("float", 0.5)}, 1.5),
        ("(int)a", "int", {"a": ("float", -1.75)}, -1),
        ("static_cast<int>(a) + int(b)", "int", {"a": ("float", 1.9), "b": ("float", 2.9)}, 3),
        ("0x10 + 010 + 0b11 + 'a'", "int", {}, 16 + 8 + 3 + 97),
        ("sizeof(float4) + sizeof(short)", "int", {}, 18),
        ("(a, b)", "int", {"a": ("int", 1), "b": ("int", 2)}, 2),
        ("1'000 + a", "int", {"a": ("int", 1)}, 1001),
        ("__popc(a) + __ffs(b)", "int", {"a": ("unsigned", 7), "b": ("int", 8)}, 7),
        ("min(a, b)", "unsigned", {"a": ("int", -1), "b": ("unsigned", 5)}, 5),
        ("__float_as_int(a)", "int", {"a": ("float", 1.0)}, 0x3F800000),
        ("std::numeric_limits<int>::max() - INT_MAX + warpSize", "int", {}, 32),
        ("std::numeric_limits<unsigned>::digits + numeric_limits<float>::digits10", "int", {}, 38),
        ("std::numeric_limits<float>::is_iec559 + std::numeric_limits<int>::is_integer * 2", "int", {}, 3),
        ("std::numeric_limits<bool>::is_modulo + std::numeric_limits<unsigned>::is_modulo", "int", {}, 1),
        ("n * 2 / CLOCKS_PER_SEC", "long long", {"n": ("long long", 3_000_000)}, 6),
    ],
)
def test_expressions(compute, expr, out, variables, expected):
    assert compute(expr, out, **variables) == expected


def test_double_literals_make_double_arithmetic(compute):
    """0.1 is a double: the product is rounded once, at the end."""
    x = np.float32(3.3)
    assert compute("a * 0.1", "float", a=("float", 3.3)) == np.float32(np.float64(x) * 0.1)
    assert compute("a * 0.1f", "float", a=("float", 3.3)) == x * np.float32(0.1)


def test_half_rounds_at_every_operation(compute):
    a, b = np.float16(1000.0), np.float16(0.3)
    assert compute("a * b + b", "__half", a=("__half", a), b=("__half", b)) == np.float16(np.float16(a * b) + b)
    one_rounding = compute(
        "__float2half(__half2float(a) * __half2float(b))", "__half", a=("__half", a), b=("__half", b)
    )
    assert one_rounding == np.float16(np.float32(a) * np.float32(b))


def test_lazy_operators_do_not_touch_memory(execute):
    text = "__global__ void k(int* out, const int* a, int n) { int i = 5; out[0] = i < n && a[i] > 0 ? 1 : 2; }"
    assert execute(text, {"out": np.zeros(1, np.int32), "a": np.ones(2, np.int32), "n": 2})["out"][0] == 2


def test_side_effects_inside_lazy_operators(execute):
    text = """__global__ void k(int* out, int n) {
        int i = 0, j = 0;
        if (n > 10 && ++i > 0) j = 1;
        if (n > 10 || i++ == 0) j += 2;
        int v = n > 10 ? i++ : (j += 4);
        out[0] = i; out[1] = j; out[2] = v; }"""
    assert list(execute(text, {"out": np.zeros(3, np.int32), "n": 3})["out"]) == [1, 6, 6]


def test_increments_give_the_right_value(execute):
    text = """__device__ int twice(int x) { return x + x; }
    __global__ void k(int* out, int* a) {
        int i = 0;
        a[i++] = 7; a[i++] = 8; a[--i] += 2;
        out[0] = i; out[1] = a[0]; out[2] = a[1];
        int t = i++ + 10; out[3] = t; out[4] = twice(i++); out[5] = i; }"""
    got = execute(text, {"out": np.zeros(6, np.int32), "a": np.zeros(4, np.int32)})["out"]
    assert list(got) == [1, 7, 10, 11, 4, 3]


def test_chained_and_compound_assignment(execute):
    text = "__global__ void k(int* out) { int a, b; a = b = 3; a <<= 2; b ^= a; out[0] = a; out[1] = b; out[1] -= 1; }"
    assert list(execute(text, {"out": np.zeros(2, np.int32)})["out"]) == [12, 14]


def test_loops(execute):
    text = """__global__ void k(int* out, int n) {
        int s = 0;
        for (int i = 0, j = n; i < j; i++, j--) { if (i == 2) continue; s += i * j; }
        out[0] = s;
        int m = n; int c = 0;
        while (m-- > 0) { if (m == 3) break; c++; }
        out[1] = c * 100 + m;
        do { c--; } while (c > 2);
        out[2] = c;
        int k; for (k = 0; k < 5; ++k) if (k * k > n) break;
        out[3] = k;
        for (int q = n; q; q >>= 1) out[4]++;
    }"""
    got = list(execute(text, {"out": np.zeros(5, np.int32), "n": 9})["out"])
    s = sum(i * (9 - i) for i in range(5) if i != 2)
    assert got == [s, 503, 2, 4, 4]


def test_switch(execute):
    text = """enum E { A, B = 5, C };
    __global__ void k(int* out, const int* in, int n) {
      for (int i = 0; i < n; ++i) {
        switch (in[i]) { case A: out[i] = 10; break; case B: case C: out[i] = 20; break; case 7: out[i] = 1;
        default: out[i] += 30; }
      } }"""
    got = execute(text, {"out": np.zeros(5, np.int32), "in": np.array([0, 5, 6, 7, 8], np.int32), "n": 5})["out"]
    assert list(got) == [10, 20, 20, 31, 30]


def test_early_returns_of_device_functions(execute):
    text = """__device__ int sign(int x) { if (x < 0) return -1; if (x == 0) return 0; return 1; }
    __device__ int find(const int* a, int n, int key) {
      for (int i = 0; i < n; ++i) { for (int j = 0; j < 2; ++j) if (a[i] + j == key) return i * 10 + j; }
      return -1; }
    __global__ void k(int* out, const int* a, int n) {
      out[0] = sign(-5); out[1] = sign(0); out[2] = sign(9);
      out[3] = find(a, n, 8); out[4] = find(a, n, 1); }"""
    args = {"out": np.zeros(5, np.int32), "a": np.array([3, 7, 7], np.int32), "n": 3}
    assert list(execute(text, args)["out"]) == [-1, 0, 1, 11, -1]


def test_references_and_structs(execute):
    text = """struct Acc { float s; int n; __device__ Acc() : s(0.f), n(0) {} __device__ void add(float x) { s += x;
    ++n; }
                  __device__ float mean() const { return s / n; } };
    struct P { float x, y; };
    __device__ P operator+(const P& a, const P& b) { return P{a.x + b.x, a.y + b.y}; }
    __device__ void swap_(float& a, float& b) { float t = a; a = b; b = t; }
    __global__ void k(float* out) {
      Acc acc; acc.add(1.f); acc.add(4.f); out[0] = acc.mean();
      P p = {1.f, 2.f}; P q{}; q = p + p; q.y += 1; out[1] = q.x; out[2] = q.y;
      float a = 1, b = 2; swap_(a, b); out[3] = a; swap_(out[0], out[3]); P z{5.f}; out[4] = z.x + z.y; }"""
    assert list(execute(text, {"out": np.zeros(5, np.float32)})["out"]) == [2.0, 2.0, 5.0, 2.5, 5.0]


def test_lambda_captures(execute):
    text = """__global__ void k(int* out) { int s = 3; auto f = [&](int x) { s += x; return s; }; out[0] = f(4);
    out[1] = f(1) + s; }"""
    assert list(execute(text, {"out": np.zeros(2, np.int32)})["out"]) == [7, 16]


def test_references_keep_the_element_they_were_bound_to(execute):
    text = """__device__ void next(int& slot, int& i) { i += 1; slot = 10 + i; }
    __device__ int bump(int v, int& x) { x += 5; return v; }
    __global__ void k(int* out) { int i = 0; int& r = out[i]; i = 2; r = 7; next(out[i], i); out[1] = i;
    out[3] = bump(i, i); out[4] = i; }"""
    assert list(execute(text, {"out": np.zeros(5, np.int32)})["out"]) == [7, 3, 13, 3, 8]


def test_block_wide_votes(execute):
    text = """__global__ void k(int* p) {
      int i = threadIdx.x;
      p[i] = __syncthreads_count(i % 3 == 0) * 100 + __syncthreads_or(i == 40) * 10 + __syncthreads_and(i < 63);
      while (__syncthreads_or(p[i] < 2300)) p[i] += 50;
    }"""
    assert execute(text, {"p": np.zeros(64, np.int32)}, threads=64)["p"].tolist() == [2310] * 64


def test_what_is_declared_behind_a_label_is_known_below_it(execute):
    text = """__global__ void k(int* out, const int* in, int n) {
      for (int i = 0; i < n; ++i) {
        switch (in[i]) { case 1: out[i] = 7; break; default: const int a = 4; int b = a; b += in[i]; out[i] = b; }
      } }"""
    got = execute(text, {"out": np.zeros(3, np.int32), "in": np.array([1, 2, 5], np.int32), "n": 3})["out"]
    assert list(got) == [7, 6, 9]


def test_a_case_may_be_a_range(execute):
    text = """__global__ void k(int* out, const int* in, int n) {
      for (int i = 0; i < n; ++i) {
        switch (in[i]) { case 1 ... 3: out[i] = 10; break; case 7: case 8 ... 9: out[i] = 20; break;
        default: out[i] = 30; }
      } }"""
    asked = np.array([0, 1, 3, 4, 7, 9, 10], np.int32)
    got = execute(text, {"out": np.zeros(7, np.int32), "in": asked, "n": 7})["out"]
    assert list(got) == [30, 10, 10, 30, 20, 20, 30]
