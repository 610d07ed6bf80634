"""Narrow floats that a kernel keeps in bytes and integers, in texts whose functions work on their bits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ktc.backends import emit
from ktc.backends.hip.hip_helpers import HELPERS
from ktc.ir.frontend import load
from ktc.ir.interp import run
from ktc.search.verification.rungs.parse_back import difference, parse_back, read_back

BYTES = """
__global__ void bytes(float* y, unsigned char* q, const unsigned char* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = 2.0f * __half2float(__half(__nv_cvt_fp8_to_halfraw(x[i], KIND)));
  q[i] = __nv_cvt_float_to_fp8(y[i], __NV_SATFINITE, KIND);
}
"""


@pytest.mark.parametrize("kind", ["__NV_E4M3", "__NV_E5M2"])
@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_floats_in_bytes_are_compared(kind: str, target: str) -> None:
    """The exact domains name patterns: decoded by arithmetic, each was another number than the conversion gives."""
    kernel = load(BYTES.replace("KIND", kind))
    assert parse_back(kernel, target).status == "pass"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("e4m3_to_float(x[i])", "(float)x[i]"),
        ("float_to_e4m3(x2)", "(unsigned char)x2"),
        ("fraction << 20", "fraction << 19"),
    ],
)
def test_a_conversion_that_is_not_the_emitters_is_seen(right: str, wrong: str) -> None:
    code = emit(load(BYTES.replace("KIND", "__NV_E4M3")), "hip")
    changed = dataclasses.replace(code, text=code.text.replace(right, wrong))
    assert changed.text != code.text and difference(code.kernel, read_back(changed))


SATURATED = """
__global__ void narrowed(INT* y, const FLOAT* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = (INT)x[i];
}
void go(INT* y, const FLOAT* x, int n) { narrowed<<<1, 32>>>(y, x, n); }
"""


@pytest.mark.parametrize("to", ["signed char", "unsigned char", "short", "unsigned short"])
@pytest.mark.parametrize("source", ["__half", "__nv_bfloat16", "__nv_fp8_e5m2"])
def test_integers_of_narrow_floats_saturate_in_every_text(source: str, to: str) -> None:
    """As ``cvt`` does: by way of a float the lower bits of a wider integer would be kept."""
    kernel = load(SATURATED.replace("INT", to).replace("FLOAT", source))
    for target in ("cuda", "hip"):
        text = emit(kernel, target).text
        line = next(line for line in text.splitlines() if "y[i] = " in line)
        assert "__half2float" not in line or target == "hip", line
        assert "half_to_" in line or "bf16_to_" in line or target == "cuda", line
        if source != "__nv_fp8_e5m2":  # a parameter of this type is a byte in the text
            assert parse_back(kernel, target).status in ("pass", "skip")


def test_the_saturating_function_computes_what_the_conversion_does() -> None:
    """HIP's text of it, read literally."""
    plain = SATURATED.replace("INT", "signed char").replace("FLOAT", "__half")
    text = HELPERS["half_to_char"] + "\n" + plain.replace("(signed char)x[i]", "half_to_char(x[i])")
    x = np.array([0.0, -0.9, 127.9, 128.0, 300.0, -128.9, -129.0, -np.inf, np.inf, np.nan], np.float16)
    for source in (plain, text):
        found = run(load(source), {"y": np.zeros(10, np.int8), "x": x, "n": 10}).outputs["y"]
        assert found.tolist() == [0, 0, 127, 127, 127, -128, -128, -128, 127, 0]


def test_a_flag_that_is_used_as_a_number_is_one() -> None:
    """OpenCL's kernels take truth values as bytes, so that the text converts nothing."""
    kernel = load("""__global__ void kept(unsigned char* y, const bool* x, bool z, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + z;
  if (i == n) y[i] = x[i];
}""")
    assert parse_back(kernel, "opencl").status == "pass"
