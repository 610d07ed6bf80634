"""Default arguments of functions that are declared apart from their bodies.

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
}
"""(declarations, body of a kernel ``k(int* y, float* f, int n)`` that is run with n = 5, the first values of y)."""


@pytest.mark.parametrize("case", CASES)
def test_default_arguments(execute, case: str) -> None:
    head, body, want = CASES[case]
    text = f"{head}\n__global__ void k(int* y, float* f, int n) {{\n{body}\n}}"
    got = execute(text, {"y": np.zeros(32, np.int32), "f": np.zeros(8, np.float32), "n": 5})
    assert got["y"].tolist() == want + [0] * (32 - len(want))
