"""Default arguments of functions that are declared apart from their bodies, and braces as arguments.

Each case's values are those that g++ 12 computes from the same text.
"""

from __future__ import annotations

import numpy as np
import pytest

CASES: dict[str, tuple[str, str, list[int]]] = {
    "defaults of a declaration": (
        """\
constexpr int kStep = 3;
namespace q { constexpr int kStep = 40; int later(int a, int b = kStep); }
int q::later(int a, int b) { return a * 100 + b; }
template <typename T> T conv(T x, int kind = 7 + (int)sizeof(T)) { return x + T(kind); }
template <> int conv<int>(int x, int kind) { return x * 1000 + kind; }
template <> float conv(float x, int kind) { return x * 10 + kind; }
int ahead(int a, int b = 5, int c = 6);
int use(int a) { return ahead(a) + ahead(a, 1); }
int ahead(int a, int b, int c) { return a * 100 + b * 10 + c; }
struct S { int v; int f(int a = 4) const; template <int N> int g(int a = N) const { return a + v; } };
int S::f(int a) const { return a * 10 + v; }
template <int N> struct R { int h(int a = N); };
template <int N> int R<N>::h(int a) { return a + 1; }
template <> int R<9>::h(int a) { return a + 100; }
""",
        """\
y[0] = q::later(1); y[1] = q::later(1, 2); y[2] = conv(2); y[3] = conv<short>(2); y[4] = (int)conv(2.0f);
y[5] = conv(2, 1);
y[6] = use(1); y[7] = S{3}.f(); y[8] = S{3}.g<8>(); R<5> r; y[9] = r.h(); R<9> t; y[10] = t.h(); y[11] = t.h(2);
""",
        [140, 102, 2011, 11, 31, 2001, 272, 43, 11, 6, 109, 102],
    ),
    "braces as arguments": (
        """\
struct V2 { float x, y; }; struct V1 { int a; }; struct C { int v;
  C(int a, int b) : v(a * 10 + b) {} };
int ff(V2 v) { return int(v.x * 10 + v.y); } int ff(int v) { return v + 1000; }
int g(V1 v) { return v.a; } int g(const V2& v) { return int(v.x + v.y) + 500; }
template <typename T> T add(T a, T b) { return T{a.x + b.x, a.y + b.y}; }
template <typename T> int both(const T& a, T b, int c) { return a.a * 100 + b.a * 10 + c; }
int h(C c) { return c.v; } int h(double d) { return int(d * 4); }
int e(int* p) { return p == nullptr; } int e2(V1 v = {7}) { return v.a; }
int sum(std::initializer_list<int> l) { int s = 0; for (int x : l) s += x; return s; }
int sum(V2 v) { return 9; }
""",
        """\
y[0] = ff({2.0f, 3.0f}); y[1] = ff({4}); y[2] = g({1.0f, 2.0f}); V2 s = add(V2{1, 2}, {3, 4});
y[3] = int(s.x * 10 + s.y);
y[4] = both(V1{1}, {2}, {3}); y[5] = h({3, 4}); y[6] = h({2.5}); y[7] = e({}); y[8] = e2(); y[9] = e2({8});
y[10] = sum({1, 2, 3});
y[11] = ff({n});
""",
        [23, 1004, 503, 46, 123, 34, 10, 1, 7, 8, 6, 1005],
    ),
}
"""(declarations, body of a kernel ``k(int* y, float* f, int n)`` that is run with n = 5, the first values of y)."""


@pytest.mark.parametrize("case", CASES)
def test_arguments_by_default_and_in_braces(execute, case: str) -> None:
    head, body, want = CASES[case]
    text = f"{head}\n__global__ void k(int* y, float* f, int n) {{\n{body}\n}}"
    got = execute(text, {"y": np.zeros(32, np.int32), "f": np.zeros(8, np.float32), "n": 5})
    assert got["y"].tolist() == want + [0] * (32 - len(want))
