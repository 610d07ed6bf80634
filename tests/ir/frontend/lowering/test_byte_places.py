"""Parameters whose places are computed in bytes are pointers to what the source declares."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.frontend.entry_points import load
from ktc.ir.interp.run import run
from ktc.ir.text import print_kernel

PITCHED = """
__global__ void k(const float* x, DECLARED y, size_t pitch, int w) {
  const float* row = (const float*)((const char*)x + blockIdx.x * pitch);
  float* to = (float*)((char*)y + (blockIdx.x * w + 1) * sizeof(float));
  for (int i = threadIdx.x; i < w; i += blockDim.x) to[i] = 2 * row[i];
}
void go(const float* x, float* y, size_t pitch, int w) { k<<<3, 4>>>(x, y, pitch, w); }
"""


def test_rows_of_a_pitch_in_bytes_are_read_as_what_they_are() -> None:
    text = print_kernel(kernel := load(PITCHED.replace("DECLARED", "float*"), name="k.cu"))
    assert "x: f32 const*" in text and "y: f32*" in text
    assert "/ 4_i64 + i" in text or "/ 4_u64 + i" in text  # elements of a row lie side by side
    x, y = np.arange(64, dtype=np.float32), np.zeros(32, np.float32)
    result = run(kernel, {"x": x, "y": y, "pitch": 80, "w": 7})
    expected = np.zeros(32, np.float32)
    for r in range(3):
        expected[r * 7 + 1 : r * 7 + 8] = 2 * x[r * 20 : r * 20 + 7]
    assert np.array_equal(result.outputs["y"], expected)


@pytest.mark.parametrize("declared", ["char*", "void*"])
def test_what_is_declared_as_bytes_stays_bytes(declared: str) -> None:
    assert "y: i8*" in print_kernel(load(PITCHED.replace("DECLARED", declared), name="k.cu"))


def test_what_is_used_as_two_types_stays_bytes() -> None:
    text = """__global__ void k(float* p, size_t pitch) {
                char* row = (char*)p + threadIdx.x * pitch;
                *(float*)row = 1;
                *(short*)(row + 4) = 2;
              }"""
    assert "p: i8*" in print_kernel(load(text, name="k.cu"))


@pytest.mark.parametrize(("bits", "value"), [("0x7fffffff", 0x7FFFFFFF), ("0x7f800000", 0x7F800000)])
def test_the_bits_of_a_constant_are_an_element_as_others_are(bits: str, value: int) -> None:
    """``CUDART_NAN_F`` is made of an integer: what is stored is a float all the same, to the bit."""
    text = f"""__global__ void k(float* p, size_t pitch, float z) {{
                float* row = (float*)((char*)p + blockIdx.x * pitch);
                if (z > 0) row[threadIdx.x] = z; else row[threadIdx.x] = __int_as_float({bits});
              }}
              void go(float* p, size_t pitch, float z) {{ k<<<2, 3>>>(p, pitch, z); }}"""
    kernel = load(text, name="k.cu")
    assert "p: f32*" in print_kernel(kernel)
    stored = run(kernel, {"p": np.zeros(8, np.float32), "pitch": 16, "z": 0.0}).outputs["p"]
    assert stored.view(np.int32).tolist() == [value] * 3 + [0] + [value] * 3 + [0]


def test_a_constant_of_fewer_bytes_is_no_element() -> None:
    text = """__global__ void k(float* p, size_t pitch) {
                char* row = (char*)p + threadIdx.x * pitch;
                *(float*)row = 1.5f * threadIdx.x;
                *(short*)(row + 4) = 2;
              }"""
    assert "p: i8*" in print_kernel(load(text, name="k.cu"))
