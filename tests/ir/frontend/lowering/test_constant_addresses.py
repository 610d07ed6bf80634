"""Named constants have addresses: references and pointers to them, of their own type and of others.

Each case's values are those that g++ 12 computes from the same text.
"""

from __future__ import annotations

import numpy as np
import pytest

CASES: dict[str, tuple[str, str, list[int]]] = {
    "addresses of constants": (
        """\
constexpr unsigned kBits = 0x40490fdb;
struct S { static constexpr int kN = 7; static constexpr unsigned kOne = 0x3f800000; };
int read(const int* p) { return *p + 1; } int byref(const int& r) { return r * 2; }
int larger(const int& a, const int& b) { return *(&a) > *(&b) ? a : b; }
""",
        """\
static constexpr unsigned M = 0x40000000; const int c = 9; constexpr float h = 2.5f;
y[0] = (int)(reinterpret_cast<const float&>(M) * 8); y[1] = (int)(*reinterpret_cast<const float*>(&kBits) * 1000);
y[2] = read(&S::kN);
y[3] = byref(S::kN); y[4] = read(&c); y[5] = larger(c, S::kN); const int* p = &c; y[6] = *p + n;
for (int i = 0; i < 2; ++i) { const int* q = &S::kN; y[7] += *q; }
y[8] = (int)(reinterpret_cast<const float&>(S::kOne) * 3); y[9] = reinterpret_cast<const unsigned&>(h) >> 20;
""",
        [16, 3141, 8, 14, 10, 9, 14, 14, 3, 1026],
    ),
}
"""(declarations, body of a kernel ``k(int* y, float* f, int n)`` that is run with n = 5, the first values of y)."""


@pytest.mark.parametrize("case", CASES)
def test_addresses_of_constants(execute, case: str) -> None:
    head, body, want = CASES[case]
    text = f"{head}\n__global__ void k(int* y, float* f, int n) {{\n{body}\n}}"
    got = execute(text, {"y": np.zeros(32, np.int32), "f": np.zeros(8, np.float32), "n": 5})
    assert got["y"].tolist() == want + [0] * (32 - len(want))
