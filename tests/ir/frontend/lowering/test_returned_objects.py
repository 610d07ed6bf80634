"""Objects that functions return are objects of their own: what they were made from may change afterwards."""

from __future__ import annotations

import numpy as np
import pytest

BEFORE = """
struct S { int a[2]; int b; };
struct B { int x; }; struct D : B { int y; };
__device__ S get(const S* p, int i) { return p[i]; }
__device__ S& ref(S* p) { return *p; }
__device__ S same(S s) { return s; }
__device__ B base(D* d) { return *d; }
struct M { int v; __device__ M copy() const { return *this; } __device__ auto other() { return *this; } };
template <class T, int N> struct alignas(sizeof(T) * N) Bits { T d[N]; };
template <class T, int N> struct Vector { Bits<T, N> bits; __device__ T& operator[](int i) { return bits.d[i]; } };
template <class T> __device__ T load_as(const void* p, int i) { return static_cast<const T*>(p)[i]; }
template <class T> __device__ void store_as(void* p, T v, int i) { static_cast<T*>(p)[i] = v; }
"""


@pytest.mark.parametrize(
    "body, changed",
    [
        ("using V = Vector<int, 4>; auto v = load_as<V>(o, 1); for (int i = 0; i < 4; ++i) v[i] += 100;"
         "o[0] = v[2]; store_as<V>(o + 8, v, 1);", {0: 106, 12: 104, 13: 105, 14: 106, 15: 107}),
        ("auto s = get((S*)o, 1); s.a[0] = 77; s.b += 1; o[0] = s.b;", {0: 6}),
        ("const auto c = get((S*)o, 1); o[5] = 99; o[0] = c.b;", {5: 99, 0: 5}),
        ("auto u = ref((S*)o); u.a[1] = 55; auto& w = ref((S*)o); w.a[0] = 66;", {0: 66}),
        ("S s = {{1, 2}, 3}; auto t = same(s); s.b = 9; o[0] = t.b;", {0: 3}),
        ("M m{4}; auto c = m.copy(); auto d = m.other(); m.v = 7; o[0] = c.v; o[1] = d.v;", {0: 4, 1: 4}),
        ("D d; d.x = 5; d.y = 6; auto b = base(&d); d.x = 8; o[0] = b.x;", {0: 5}),
        ("M m{4}; auto f = [&] { return m; }; auto c = f(); m.v = 7; o[0] = c.v;", {0: 4}),
    ],
)  # fmt: skip
def test_a_returned_object_is_a_copy(execute, body: str, changed: dict[int, int]) -> None:
    got = execute(BEFORE + "__global__ void k(int* o) {" + body + "}", {"o": np.arange(16, dtype=np.int32)})["o"]
    want = np.arange(16)
    want[list(changed)] = list(changed.values())
    np.testing.assert_array_equal(got, want)
