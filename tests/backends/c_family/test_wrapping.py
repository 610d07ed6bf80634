"""Unsigned arithmetic of signed variables wraps; the same in int would be undefined, and compilers use that."""

from __future__ import annotations

import pytest

from ktc.backends import emit
from ktc.ir.frontend import load

SOURCE = """
__device__ unsigned {name}(unsigned x, unsigned y) {{ return {expr}; }}
__global__ void k(unsigned *o, const int *a, const int *b) {{ int t = {name}(a[0], b[0]); o[0] = t < a[0]; }}
"""


@pytest.mark.parametrize("target", ["cuda", "hip", "opencl"])
@pytest.mark.parametrize("expr", ["x + y", "x * y", "x - y", "-x", "x << 3"])
def test_sums_of_signed_variables_stay_unsigned(expr: str, target: str) -> None:
    """``t < a`` asks whether the sum went round: in int a compiler may answer ``b < 0``."""
    text = emit(load(SOURCE.format(name="f", expr=expr)), target).text
    unsigned = "uint" if target == "opencl" else "unsigned"
    assert f"({unsigned})a[0]" in text


def test_bits_and_small_numbers_need_no_cast() -> None:
    text = """
    __device__ unsigned f(unsigned x, unsigned y) { return x & y; }
    __device__ unsigned g(unsigned x, unsigned y) { return x + y; }
    __global__ void k(unsigned *o, const int *a, unsigned short s, unsigned char c) {
      o[0] = f(a[0], a[1]);
      o[1] = g(s, c);
    }
    """
    printed = emit(load(text), "cuda").text
    assert "a[0] & a[1]" in printed and "s + c" in printed
