"""Words that are put into an array to be taken apart are shifted instead."""

from __future__ import annotations

import numpy as np
import pytest

from ktc.ir.interp import run
from ktc.ir.text import parse_kernel, print_kernel
from ktc.passes.raising.lanes.packed_lanes import with_packed_lanes

from .raised_once import raised

KERNEL = """\
kernel k(w: u32 const*, y: i8*, n: i32)
  launch grid(1) block(1)
  array b: i8[4] align 4
  STORE
  FIRST
  if n > 0
    y[1] = b[1]
  y[2] = b[3]
"""
STORE, FIRST = "b[0 +: 4] = w[0] as.bit i8x4", "y[0] = b[0]"


def test_each_byte_of_a_word() -> None:
    kernel = parse_kernel(KERNEL.replace("STORE", STORE).replace("FIRST", FIRST))
    plain = kernel.with_(body=with_packed_lanes(kernel.body))
    text = print_kernel(plain)
    assert "array" not in text and "let b: u32 = w[0]" in text and "i8(b >> 24_u32)" in text, text
    for word in (0x80FF017F, 0x7F8000FE):
        given = {"w": np.array([word], np.uint32), "y": np.zeros(3, np.int8), "n": 1}
        left = [run(k, dict(given), domain="float").outputs["y"] for k in (kernel, plain)]
        assert (left[0] == left[1]).all(), left


@pytest.mark.parametrize(
    "store, first",
    [
        (STORE, "y[0] = b[n]"),
        (STORE, "b[1] = y[0]"),
        ("b[0 +: 2] = y[0 +: 2]", FIRST),
        ("y[3] = b[2]", STORE),
    ],
    ids=["any-byte", "changed", "no-word", "read-before"],
)
def test_other_arrays_stay(store: str, first: str) -> None:
    kernel = parse_kernel(KERNEL.replace("STORE", store).replace("FIRST", first))
    assert with_packed_lanes(kernel.body) == kernel.body


def test_a_quantised_row_has_no_array() -> None:
    source = """
    __global__ void quantise(const float* __restrict__ x, signed char* __restrict__ q, float scale, int n) {
      for (int i = threadIdx.x; i < n; i += 64) {
        unsigned word;
        asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(word) : "f"(x[blockIdx.x * n + i] * scale));
        q[blockIdx.x * n + i] = reinterpret_cast<const signed char&>(word);
      }
    }
    void run(const float* x, signed char* q, float scale, int rows, int n) {
      quantise<<<rows, 64>>>(x, q, scale, n);
    }
    """
    found = print_kernel(raised(source)[1].kernel)
    assert "par i in 0..n @ [thread.x 64, seq]" in found and "array" not in found and "= i8(" in found, found
