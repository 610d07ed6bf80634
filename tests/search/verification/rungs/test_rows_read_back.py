"""Texts of kernels whose rows lie anywhere denote the kernels that were printed."""

from __future__ import annotations

import pytest

from ktc.backends import emit
from ktc.ir.text import parse_kernel
from ktc.search.verification.rungs.parse_back import parse_back, read_back

SUM = """\
kernel total(
    x: f32 const* readonly rows x_row,
    to: f32* rows to_row,
    n: i32,
    host m: i32,
    host x_row: i64,
    host to_row: i64)
  launch grid(m) block(32)
  var j: i32 = blockIdx.x
  for i = threadIdx.x; i < n; i + 32
    to[j as i64 * to_row + i as i64] = x[j as i64 * x_row + i as i64] + x[{other} + i as i64]
"""


@pytest.mark.parametrize("other", ["0_i64 * x_row", "(j as i64 + 1_i64) * x_row"])
@pytest.mark.parametrize("target", ["cuda", "hip", "opencl"])
def test_a_text_denotes_the_rows_of_its_kernel(target: str, other: str) -> None:
    outcome = parse_back(parse_kernel(SUM.format(other=other)), target)
    assert outcome.status == "pass", outcome.detail


def test_what_is_read_back_has_one_index_as_the_kernel_has() -> None:
    read = read_back(emit(parse_kernel(SUM.format(other="x_row")), "cuda"))
    assert {p.sym.name: p.rows for p in read.params if p.rows} == {"x": "x_row", "to": "to_row"}
    assert {p.sym.name for p in read.params if p.host} == {"m", "x_row", "to_row"}
