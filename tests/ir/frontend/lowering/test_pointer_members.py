"""Pointers in objects: they keep where they pointed when they were stored, and move where the program says."""

from __future__ import annotations

import numpy as np
import pytest

BEFORE = """
struct A { int* p; int k; }; struct Out { A in; int n; __device__ void step() { in.p += in.k; n++; *in.p = n; } };
struct S { int* p; __device__ S(int* q) : p(q) {} __device__ int* get() { return p; }
    __device__ void set(int* q) { p = q; } __device__ void skip(int n) { p = p + n; } };
struct It { int* p; __device__ int& operator*() { return *p; } __device__ It& operator++() { ++p; return *this; }
    __device__ bool operator!=(const It& b) const { return p != b.p; } };
struct Range { int *b, *e; __device__ It begin() { return {b}; } __device__ It end() { return {e}; } };
__device__ void put(A& a, int* q) { a.p = q; } __device__ A make(int* q) { A a{q, 0}; a.p++; return a; }
__device__ void set(int*& p, int* o) { p = o + 3; }
template <int N> __device__ void alloc(int** a, float** b, int** unused) {
    __shared__ int sa[N]; __shared__ float sb[N]; *a = sa; *b = (float*)sb; }
typedef void (*alloc_t)(int**, float**, int**);
template <alloc_t F> __device__ int staged(int n) {
    int* p = nullptr; float* q = nullptr; int* z = nullptr; F(&p, &q, &z);
    p[1] = n; q[2] = 2.5f; int* r = p + 1; p += 1; *p += 4; return *r + (int)(q[2] * 2) + (z == nullptr) * 100; }
"""


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize(
    "body, want",
    [
        ("int i = 1; A a{o + i, 2}; i++; *a.p = 77; A b = a; i = 9; b.p[1] = 78;", lambda n: {1: 77, 2: 78}),
        ("int i = 2; S s(o + i); i = 9; *s.p = 77; int* t = s.get(); s.p = o; *t += 1;", lambda n: {2: 78}),
        ("int i = 2; A a{}; a.p = o + i; i++; *a.p = 77;", lambda n: {2: 77}),
        ("S s{o}; if (n > 0) s.set(o + 4); *s.p = 77;", lambda n: {4 if n else 0: 77}),
        ("S s{o}; for (int i = 0; i < n; ++i) s.skip(2); *s.p = 77;", lambda n: {2 * n: 77}),
        ("A a{o, 0}; for (int i = 0; i < n; ++i) put(a, o + 2 + i); *a.p = 77;", lambda n: {n + 1 if n else 0: 77}),
        ("A a{o, 0}; auto f = [&](int k) { a.p = o + k; }; if (n == 1) f(9); *a.p = 77;", lambda n: {9 * (n == 1): 77}),
        ("A a{o + 1, 0}; if (n) { *a.p = 5; a.p++; } a.p[1] = 6;", lambda n: {1: 5, 3: 6} if n else {2: 6}),
        ("int s = 0; for (int x : Range{o + 1, o + 4}) s += x; o[0] = s;", lambda n: {0: 6}),
        ("for (It k{o + 4}; k != It{o + 4 + n}; ++k) *k = 50;", lambda n: {4 + i: 50 for i in range(n)}),
        ("Out u{{o, 2}, 40}; for (int i = 0; i < n; ++i) u.step(); u.step();",
         lambda n: {2 * i: 40 + i for i in range(1, n + 2)}),
        ("auto a = make(o); *a.p++ = 70; *a.p = make(o + 8).p[0];", lambda n: {1: 70, 2: 9}),
        ("A a{o, 0}; A* q = &a; q->p = o + 5; if (n > 0) q->p += n; *a.p = 74;", lambda n: {5 + n: 74}),
        ("int* p = nullptr; set(p, o); *p = 5; int* q; set(q, o); q[1] = 6;", lambda n: {3: 5, 4: 6}),
        ("o[0] = staged<alloc<8>>(n);", lambda n: {0: n + 109}),
    ],
)  # fmt: skip
def test_pointers_in_objects(execute, body: str, want, n: int) -> None:
    got = execute(
        BEFORE + "__global__ void k(int* o, int n) {" + body + "}", {"o": np.arange(16, dtype=np.int32), "n": n}
    )
    expected = np.arange(16)
    changed = want(n)
    expected[list(changed)] = list(changed.values())
    np.testing.assert_array_equal(got["o"], expected)


def test_a_pointer_that_a_called_function_moves_under_a_condition_is_refused(refuses) -> None:
    text = """__device__ void pick(int** p, int* a, int* b, int n) { if (n > 0) *p = a; else *p = b; }
    __global__ void k(int* o, int n) { int a[4] = {1}; int b[4] = {2}; int* p = nullptr;
        pick(&p, a, b, n); o[0] = *p; }"""
    refuses(text, "E-UNSUPPORTED-POINTER")
