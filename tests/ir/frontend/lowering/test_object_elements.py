"""Objects whose members are asked for by number: variables where all numbers are known, an array otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.text import print_kernel

PAIRS = """
struct Pair {
  float x, y;
  Pair() DEFAULT
  __device__ Pair(float a, float b) : x(a), y(b) {}
  __device__ float& operator[](int i) { return (&x)[i]; }
};
struct Square {
  Pair columns[2];
  Square() = default;
  __device__ Square(float a, float b, float c, float d) { columns[0] = Pair(a, b); columns[1] = Pair(c, d); }
  __device__ Pair& operator[](int i) { return columns[i]; }
};
__global__ void k(float* y, float a, int at) {
  Square m(a, 2 * a, 3 * a, 4 * a), n = m;
  n[0][1] += 10;
  y[0] = n[0].x + 100 * n[AT][1] + 1000 * m[1][0];
  y[1] = m[0][1];
}
"""


@pytest.mark.parametrize("default", ["= default;", "{}"])
@pytest.mark.parametrize(("at", "kept"), [("1", 0), ("at", 1)])
def test_an_array_stays_where_an_index_is_not_known(cu, execute, default: str, at: str, kept: int) -> None:
    text = PAIRS.replace("DEFAULT", default).replace("AT", at)
    assert print_kernel(cu(text)).count("array") == kept
    assert execute(text, {"y": np.zeros(2, np.float32), "a": 1.0, "at": 0})["y"].tolist() == [
        1 + 100 * (4 if at == "1" else 12) + 3000,
        2,
    ]


def test_a_constructor_that_does_nothing_is_no_code(cu) -> None:
    """Elements of a member array have no values before the body of the constructor gives them some."""
    printed = print_kernel(cu(PAIRS.replace("DEFAULT", "= default;").replace("AT", "1")))
    assert "= 0.0" not in printed


def test_a_constructor_that_does_nothing_leaves_members_with_a_start_theirs(execute) -> None:
    text = """struct Seven { float v = 7; Seven() {} }; struct Both { Seven a, b[2]; int n; Both() = default; };
    __global__ void k(float* y) { Both all[2]; y[0] = all[1].a.v + 10 * all[0].b[1].v; }"""
    assert execute(text, {"y": np.zeros(1, np.float32)})["y"].tolist() == [77]
