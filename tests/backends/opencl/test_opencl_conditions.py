"""Where C++ makes a truth value of a number: OpenCL takes no float before ``?``, and keeps flags in bytes."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.backends import emit
from ktc.ir.frontend import load
from ktc.ir.interp import run as interpret
from ktc.ir.text import parse_kernel
from tests.backends.opencl.test_opencl import run

BODIES = {
    "choice": "o[i] = t[i] ? -t[i + 1] : t[i + 1];",
    "choice of a double": "double d = t[i]; o[i] = d * 0.5 ? 1.f : 2.f;",
    "choice in a choice": "o[i] = (t[i] ? t[i + 1] : t[i + 2]) ? 1.f : 2.f;",
    "choice of a half": "half h = __float2half(t[i]); o[i] = h ? 1.f : 2.f; if (h) o[i] += 3; o[i] += 4 * !h;",
    "choice by a vector's lane": "float2 v = make_float2(t[i], t[i + 1]); o[i] = v.x ? 1.f : v.y ? 2.f : 3.f;",
    "not, and, or": "o[i] = !t[i] + 2 * (t[i] && t[i + 1]) + 4 * (t[i] || t[i + 1]);",
    "if": "if (t[i]) o[i] = 1; else o[i] = 2; if (!t[i + 1]) o[i] += 4;",
    "loops": "int n = 0; float x = t[i] * 8; while (x) { x = truncf(x * .5f); n++; } for (x = t[i + 1]; x; "
             "x = truncf(x * .5f)) n += 10; x = t[i]; do { x = truncf(x * .5f); n += 100; } while (x); o[i] = n;",
    "variables": "bool a = t[i], b; b = t[i + 1]; o[i] = a + 2 * b; a |= t[i + 2] != 0; o[i] += 4 * a;",
    "conversions": "o[i] = (bool)t[i] + (float)(bool)t[i] + max((int)(bool)t[i], 0) + ((bool)t[i] < (bool)t[i + 1]);",
    "a switch": "switch ((bool)t[i]) { case 0: o[i] = 1; break; default: o[i] = 2; }",
    "shared flags": "__shared__ bool s[32]; s[i] = t[i]; __syncthreads(); o[i] = s[31 - i];",
    "flags of a float": "f[i] = t[i]; o[i] = f[i];",
    "flags of an int": "f[i] = (int)(t[i] * 512); o[i] = f[i];",
    "flags of a long": "f[i] = (long long)(t[i] * 512) << 32; o[i] = f[i];",
    "flags that are changed": "f[i] = 1; f[i] += t[i] == 0; o[i] = f[i]; f[i] = t[i]; f[i] |= (int)(t[i] * 512);",
}  # fmt: skip

T = np.array([0.0, 0.5, -0.25, 0.0, 2.0, -0.0, 1e-30, -7.0, 3.0, 0.0] * 4, np.float32)


@pytest.mark.parametrize("name", BODIES)
def test_a_number_is_true_if_it_is_not_zero(name: str) -> None:
    source = f"""#include <cuda_fp16.h>
    __global__ void k(const float* t, float* o, bool* f) {{ int i = threadIdx.x; {BODIES[name]} }}
    void go(const float* t, float* o, bool* f) {{ k<<<1, 32>>>(t, o, f); }}"""
    kernel = load(source, name="k.cu")
    want = interpret(kernel, {"t": T.copy(), "o": np.zeros(32, np.float32), "f": np.zeros(32, np.bool_)}).outputs
    _, o, f = run(kernel, [T, np.zeros(32, np.float32), np.zeros(32, np.uint8)], 1, 32)
    np.testing.assert_array_equal(o, want["o"])
    np.testing.assert_array_equal(f, want.get("f", np.zeros(32)).astype(np.uint8))


def test_a_vote_takes_an_int() -> None:
    """``__any_sync`` of 0.5f is one of 0, and of 64 bits the lower half counts; a truth value keeps its own test."""
    source = "__global__ void k(const float* t, const long long* w, int* o) { o[0] = VOTE; }"
    for vote in ("__any_sync(~0u, t[0])", "__ballot_sync(~0u, w[0])"):
        text = emit(load(source.replace("VOTE", vote), name="k.cu"), "cuda").text
        assert "(int)t[0]" in text or "(int)w[0]" in text
    kernel = parse_kernel(
        "kernel k(o: i32* restrict, t: f32 const* restrict)\n  launch grid(1) block(32)\n"
        "  o[threadIdx.x] = vote_all(bool(t[threadIdx.x])) ? 1 : 0\n"
    )
    assert "t[threadIdx.x] != 0" in emit(kernel, "cuda").text
