"""Floats that are taken apart into bits, so that no error bound is known: other bits are not passed over."""

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


@pytest.mark.parametrize(("body", "other", "status", "says"), [
    (BY_BITS, NEAREST, "TESTED", "bit-identical"),
    (NEAREST, CUT, "UNKNOWN", "no error bound is known"),
])  # fmt: skip
def test_other_bits_are_not_passed_over(tmp_path: Path, body: str, other: str, status: str, says: str) -> None:
    (tmp_path / "k.cu").write_text(NARROWED.replace("BODY", body))
    original = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)[0]
    verdict = original.rewritten_as(ktc.loads(NARROWED.replace("BODY", other))).verify(device="none")
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


@pytest.mark.parametrize(("order", "kept", "status"), [
    ("r * d + d - 1 - i", "0xfffff000u", "TESTED"),
    ("r * d + i", "0xffff0000u", "UNKNOWN"),
])  # fmt: skip
def test_sums_in_another_order_agree(tmp_path: Path, order: str, kept: str, status: str) -> None:
    (tmp_path / "k.cu").write_text(SUMS.replace("KEPT", "0xfffff000u"))
    original = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)[0]
    other = SUMS.replace("KEPT", kept).replace("r * d + i", order)
    verdict = original.rewritten_as(ktc.loads(other)).verify(device="none")
    assert verdict.status == status, verdict
