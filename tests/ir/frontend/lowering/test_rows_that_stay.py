"""A pointer to a row of an array, or a reference to it, stays where it was made, whatever becomes of the index."""

from __future__ import annotations

import numpy as np
import pytest

BEFORE = """
__device__ int changes(int* p, int& s) { s = 0; return p[1]; }
__device__ int of_row(int (&p)[4], int& s) { s = 0; return p[1]; }
template <class F> __device__ int calls(const int* p, F f) { f(); return p[1]; }
struct B { int t[2][4]; int* row; };
"""

ROWS = "int s = 1; __shared__ int m[2][4]; for (int i = 0; i < 8; ++i) m[i / 4][i % 4] = 10 * (i / 4) + i % 4;"


@pytest.mark.parametrize(
    "body, want",
    [
        ("int* p = m[s]; s ^= 1; o[0] = p[1];", 11),
        ("int* p = m[s]; s ^= 1; int* q = m[s]; s = 7; o[0] = p[1] + 100 * q[3];", 311),
        ("auto& p = m[s]; s = 0; o[0] = p[2];", 12),
        ("int* p = &m[s][s]; s = 0; o[0] = p[1];", 12), ("int* p = m[s] + s; s = 0; o[0] = *p;", 11),
        ("int* p = m[s]; int* flat = &m[0][0]; s = 0; o[0] = p[1] + flat[5];", 22),
        ("const int* p = n ? m[s] : m[0]; s = 0; o[0] = p[1];", 11), ("o[0] = changes(m[s], s);", 11),
        ("o[0] = of_row(m[s], s);", 11), ("o[0] = calls(m[s], [&] { s = 0; });", 11),
        ("o[0] = calls(o + s, [&] { s = 0; });", 3),
        ("B b{{{1, 2, 3, 4}, {5, 6, 7, 8}}, nullptr}; b.row = b.t[s]; s = 0; o[0] = b.row[2];", 7),
        ("int* p = m[s]; for (int i = 0; i < 2; ++i) { o[i + 3] = *p++; s = 0; } o[0] = *p;", 12),
        ("auto& [x, y, z, w] = m[s]; s = 0; m[1][2] = 15; o[0] = z + y;", 26),
        ("B b[2] = {}; b[1].t[0][1] = 3; auto& [t, r] = b[s]; s = 0; b[1].t[0][1]++; o[0] = t[0][1];", 4),
        ("int* p = m[0]; p = m[s]; s = 0; o[0] = p[1];", 11),
        ("int* p = m[0]; for (int i = 0; i < 2; ++i) { p = m[s]; s = 0; } o[0] = p[1];", 1),
    ],
)  # fmt: skip
def test_a_row_stays(execute, body: str, want: int) -> None:
    text = BEFORE + "__global__ void k(int* o, int n) {" + ROWS + body + "}"
    assert execute(text, {"o": np.arange(1, 9, dtype=np.int32), "n": 1})["o"][0] == want


def test_stages_of_a_double_buffer_alternate(execute) -> None:
    text = """__global__ void k(int* o, const int* a, int n) { __shared__ int tile[2][32]; int stage = 0;
        tile[stage][threadIdx.x] = a[threadIdx.x];
        __syncthreads();
        for (int i = 1; i <= n; ++i) { int* now = tile[stage]; stage ^= 1; int* next = tile[stage];
            if (i < n) next[threadIdx.x] = a[i * 32 + threadIdx.x];
            o[threadIdx.x] += now[31 - threadIdx.x]; __syncthreads(); } }"""
    a = np.arange(96, dtype=np.int32)
    got = execute(text, {"o": np.zeros(32, np.int32), "a": a, "n": 3}, threads=32)["o"]
    np.testing.assert_array_equal(got, a.reshape(3, 32).sum(0)[::-1])


@pytest.mark.parametrize(
    "body, want",
    [
        ("int x = 0; put(x, 1, x + 2, n); o[0] = x;", 4), ("int x = 5; o[0] = bumped(x, x) + x;", 17),
        ("int x = 5; bump(x, o[3]); o[0] = x + o[3];", 11), ("float f = 1.5f; o[0] = bumped(f, 2) * 2;", 11),
        ("o[0] = *(n ? past(o, 1, 1) : past(o, n));", 3), ("o[0] = over(o, o[0], o[1]);", 3),
        ("int i = 1; auto f = [p = &o[i]] { return *p; }; i = 3; o[0] = f();", 2),
        ("int i = 1; auto f = [&r = o[i]] { r += 5; }; i = 3; f(); o[0] = o[1];", 7),
        ("int x = 1; auto f = [](auto... v) { return ((v += 1, v) + ...); }; o[0] = f(x, x) * 10 + x;", 41),
    ],
)  # fmt: skip
def test_parameters_of_packs_are_objects_or_references_as_declared(execute, body: str, want: int) -> None:
    before = """__device__ void add(int& s, int v) { s += v; }
    template <class... A> __device__ void put(int& s, A... a) { (add(s, a), ...); }
    template <class... A> __device__ auto bumped(A... a) { ((a += 1), ...); return (a + ...); }
    template <class... A> __device__ auto past(const int* p, A... a) { return p + (... + a); }
    template <class... A> __device__ int over(int* p, A... a) { p[0] = 50; p[1] = 60; return (a + ...); }
    template <class... A> __device__ void bump(A&... a) { ((a += 1), ...); }
    """
    got = execute(before + "__global__ void k(int* o, int n) {" + body + "}", {"o": np.int32([1, 2, 3, 4]), "n": 1})
    assert got["o"][0] == want
