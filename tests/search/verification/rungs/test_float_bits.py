"""Floats taken apart into bits: those that are passed in have the bits of the machine, and a bound; of computed
ones none is known, and other bits are not passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktc
from ktc.scaffold import with_draft

NARROWED = """
#include <cuda_bf16.h>
__global__ void narrow(__nv_bfloat16* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { BODY }
}
void go(__nv_bfloat16* y, const float* x, int n) { narrow<<<(n + 255) / 256, 256>>>(y, x, n); }
"""
NEAREST = "y[i] = __float2bfloat16(x[i]);"
CUT = "y[i] = __ushort_as_bfloat16((unsigned short)(__float_as_uint(x[i]) >> 16));"
BY_BITS = """unsigned u = __float_as_uint(x[i]);
    y[i] = __ushort_as_bfloat16((unsigned short)(u + 0x7fff + (u >> 16 & 1) >> 16));"""


@pytest.mark.parametrize(("given", "body", "other", "status", "says"), [
    ("x[i]", BY_BITS, NEAREST, "TESTED", "of the error bound"),
    ("x[i]", NEAREST, BY_BITS, "TESTED", "of the error bound"),
    ("x[i]", NEAREST, CUT, "REJECTED", "bound"),
    ("(x[i] * 3.0f)", BY_BITS, NEAREST, "TESTED", "bit-identical"),
    ("(x[i] * 3.0f)", NEAREST, CUT, "UNKNOWN", "no error bound is known"),
])  # fmt: skip
def test_other_bits_are_not_passed_over(
    tmp_path: Path, given: str, body: str, other: str, status: str, says: str
) -> None:
    source = NARROWED.replace("BODY", body).replace("x[i]", given)
    (tmp_path / "k.cu").write_text(source)
    original = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)[0]
    verdict = original.rewritten_as(ktc.loads(NARROWED.replace("BODY", other).replace("x[i]", given))).verify(
        device="none"
    )
    (rung,) = (r for r in verdict.rungs if r.name == "float")
    assert verdict.status == status and says in rung.detail


SUMS = """
__global__ void sums(float* y, const float* x, int rows, int d) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float s = 0.0f;
  for (int i = 0; i < d; ++i) s += __uint_as_float(__float_as_uint(x[r * d + i]) & KEPT);
  y[r] = s;
}
void go(float* y, const float* x, int rows, int d) { sums<<<(rows + 63) / 64, 64>>>(y, x, rows, d); }
"""


@pytest.mark.parametrize(("by", "order", "kept", "status"), [
    ("", "r * d + d - 1 - i", "0xfffff000u", "TESTED"),
    ("", "r * d + i", "0xffff0000u", "REJECTED"),
    (" * 3.0f", "r * d + d - 1 - i", "0xfffff000u", "TESTED"),
    (" * 3.0f", "r * d + i", "0xffff0000u", "UNKNOWN"),
])  # fmt: skip
def test_sums_in_another_order_agree(tmp_path: Path, by: str, order: str, kept: str, status: str) -> None:
    source = SUMS.replace("r * d + i]", f"r * d + i]{by}")
    (tmp_path / "k.cu").write_text(source.replace("KEPT", "0xfffff000u"))
    original = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)[0]
    other = source.replace("KEPT", kept).replace("r * d + i", order)
    verdict = original.rewritten_as(ktc.loads(other)).verify(device="none")
    assert verdict.status == status, verdict
