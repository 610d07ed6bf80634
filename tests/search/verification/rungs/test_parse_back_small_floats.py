"""OpenCL's text of small floats and of dynamic shared memory, read back by rules that accept nothing else."""

from __future__ import annotations

import dataclasses

import pytest

from ktc.backends import emit
from ktc.backends.base import Emitted
from ktc.backends.opencl.opencl_dialect import OpenCLDialect
from ktc.backends.opencl.opencl_helpers import HELPERS
from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend import load
from ktc.ir.text import parse_kernel
from ktc.search.verification.rungs.parse_back import difference, parse_back, read_back

SMALL = ("f16", "bf16", "e4m3", "e5m2")
KERNEL = """
kernel scale(y: T* restrict, x: T const* restrict, n: i32, a: f32)
  launch grid(cdiv(n, 256)) block(256)
  array s: shared T[256]
  let i: i32 = i32(blockIdx.x) * 256 + i32(threadIdx.x)
  if i < n
    let q: T = x[i]
    var r: T = T(1.5)
    if f32(q) > 0.0
      r = q
    s[threadIdx.x] = r
    y[i] = T(a * f32(s[threadIdx.x]) + f32(q))
"""


def code_of(t: str) -> Emitted:
    return emit(parse_kernel(KERNEL.replace("T", t)), "opencl")


def seen(code: Emitted, right: str, wrong: str) -> str:
    """What the rung says of the text with ``right`` printed as ``wrong``; '' if it takes it for the same program."""
    text = code.text.replace(right, wrong, 1)
    assert text != code.text
    try:
        return difference(code.kernel, read_back(dataclasses.replace(code, text=text)))
    except KtcError as e:
        return e.message


@pytest.mark.parametrize("t", SMALL)
def test_small_floats_are_compared(t: str) -> None:
    assert parse_back(parse_kernel(KERNEL.replace("T", t)), "opencl").status == "pass"


def word(t: str) -> str:
    return "half" if t == "f16" else t


@pytest.mark.parametrize("t", SMALL)
def test_a_conversion_that_is_left_out_is_seen(t: str) -> None:
    """It compiles: C converts the integer that the float is stored as."""
    code, w = code_of(t), word(t)
    for right, wrong in (
        (f"{w}_to_float(q) > 0.0f", "q > 0.0f"), (f"+ {w}_to_float(q)", "+ q"), (f"{w}_to_float(s[", "(s["),
        (f"float_to_{w}(1.5f)", "1.5f"), (f"float_to_{w}(1.5f)", "1.5"), (f"float_to_{w}(1.5f)", "1"),
        (f"y[i] = float_to_{w}(", "y[i] = ("), (f"float_to_{w}(1.5f)", f"float_to_{w}(2.5f)"),
        (f"{w}_to_float(q) > 0.0f", "q"), (f"+ {w}_to_float(q)", f"- {w}_to_float(q)"),
    ):  # fmt: skip
        assert seen(code, right, wrong), wrong


@pytest.mark.parametrize("t", SMALL)
def test_a_function_that_is_not_the_emitters_is_seen(t: str) -> None:
    code, w = code_of(t), word(t)
    integer = "uchar" if t.startswith("e") else "ushort"
    for name, other in (
        (f"{w}_to_float", f"static inline float {w}_to_float({t} x) {{ return (float)x; }}"),
        (f"float_to_{w}", f"static inline {t} float_to_{w}(float x) {{ return ({t})x; }}"),
        (t, f"typedef {'int' if integer == 'uchar' else 'uint'} {t};"),
    ):
        assert "of its own" in seen(code, HELPERS[name], other)


def test_a_planted_fault_of_the_emitter_fails_the_rung(monkeypatch) -> None:
    wrong = HELPERS["float_to_half"].replace("_rte", "_rtz")
    assert wrong != HELPERS["float_to_half"]
    monkeypatch.setattr(OpenCLDialect, "helpers", {**HELPERS, "float_to_half": wrong})
    assert parse_back(parse_kernel(KERNEL.replace("T", "f16")), "opencl").status == "fail"


DYNAMIC = """
__global__ void turned(float* __restrict__ y, const float* __restrict__ x, int n) {
  extern __shared__ float s[];
  int t = threadIdx.x;
  s[t] = x[t];
  __syncthreads();
  y[t] = s[63 - t];
}
void launch(float* y, const float* x, int n) { turned<<<n, 64, 64 * sizeof(float)>>>(y, x, n); }
"""


@pytest.mark.parametrize("target", ("cuda", "hip", "opencl"))
def test_dynamic_shared_memory_is_compared(target: str) -> None:
    kernel = load(DYNAMIC)
    assert parse_back(kernel, target).status == "pass"
    code = emit(kernel, target)
    assert seen(code, "63 - t", "62 - t") and seen(code, "s[t] = x[t]", "s[t] = x[0]")
    if target == "opencl":
        assert seen(code, "__local float* s", "__local int* s")


def test_dynamic_shared_memory_in_several_types_is_not() -> None:
    """The bits of one type in an array of another go through temporaries there."""
    two = load(DYNAMIC.replace("int t = threadIdx.x;", "extern __shared__ int k[]; int t = threadIdx.x; k[t] = t;"))
    assert parse_back(two, "opencl").status == "skip" and parse_back(two, "cuda").status == "pass"
