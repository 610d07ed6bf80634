"""Tensors without elements: what a candidate does for them is looked at where nothing rules them out."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktc
from ktc.ir.frontend import load
from ktc.ir.workload import Workload
from ktc.search.verification import Verdict, verify

ROWS = """
__global__ void rows_of(const float* x, float* y, int rows, int cols) {
  const int row = blockIdx.x;
  float sum = 0;
  BODY
}
void go(const float* x, float* y, int rows, int cols) { rows_of<<<GRID, 1>>>(x, y, rows, cols); }
"""
SUM = "for (int i = 0; i < cols; ++i) sum += x[row * cols + i];"
GUARDED = ROWS.replace("BODY", "if (row >= rows) return; " + SUM + " y[row] = sum;")
TOTAL = ROWS.replace("BODY", "for (int i = 0; i < rows * cols; ++i) sum += x[i]; if (row == 0) y[0] = sum;")

WORKLOAD = """
[kernel]
source = "k.cu"
name = "rows_of"
[[args]]
name = "x"
dtype = "f32"
role = "in"
shape = ["rows", "cols"]
[[args]]
name = "y"
dtype = "f32"
role = "out"
shape = ["SHAPE"]
[[args]]
name = "rows"
dtype = "i32"
role = "scalar"
value = "rows"
ROW_RANGE
[[args]]
name = "cols"
dtype = "i32"
role = "scalar"
value = "cols"
COL_RANGE
[[scenario]]
name = "small"
sizes = { rows = 5, cols = 7 }
"""


def _verdict(
    folder: Path, one: str, other: str, *, grid: tuple[str, str] = ("rows", "rows"), shape: str = "rows",
    ranges: tuple[str, str] = ("", ""),
) -> Verdict:  # fmt: skip
    (folder / "k.cu").write_text(one.replace("GRID", grid[0]))
    text = WORKLOAD.replace("ROW_RANGE", ranges[0]).replace("COL_RANGE", ranges[1]).replace("SHAPE", shape)
    (folder / "workload.toml").write_text(text)
    theirs = load(other.replace("GRID", grid[1]), name="other.cu")
    return verify(ktc.load(str(folder)).kernel, theirs, Workload.load(folder))


WRITES_ONLY_WHAT_IT_ADDS = GUARDED.replace("y[row] = sum", "if (cols > 0) y[row] = sum")
READS_THE_FIRST = GUARDED.replace("float sum = 0", "float sum = 0 + x[row * cols]").replace("int i = 0", "int i = 1")


@pytest.mark.parametrize("other", [WRITES_ONLY_WHAT_IT_ADDS, READS_THE_FIRST])
def test_rows_without_elements_are_written(tmp_path: Path, other: str) -> None:
    assert _verdict(tmp_path, GUARDED, other).status == "REJECTED"
    assert _verdict(tmp_path, GUARDED, other, ranges=("", "range = [1, 64]")).status == "TESTED"


def test_what_the_source_does_not_launch_writes_nothing(tmp_path: Path) -> None:
    """Of no rows the source has no block; a candidate with one block stores the sum of nothing."""
    verdict = _verdict(tmp_path, TOTAL, TOTAL + "// one block", grid=("rows", "1"), shape="1")
    assert verdict.status == "REJECTED" and verdict.failure is not None and verdict.failure.sizes["rows"] == 0
    promised = _verdict(tmp_path, TOTAL, TOTAL, grid=("rows", "1"), shape="1", ranges=("range = [1, 64]", ""))
    assert promised.status == "TESTED"


def test_what_the_source_writes_of_nothing_is_written(tmp_path: Path) -> None:
    verdict = _verdict(tmp_path, TOTAL, TOTAL, grid=("1", "rows"), shape="1")
    assert verdict.status == "REJECTED"


@pytest.mark.parametrize(
    ("one", "grid"),
    [
        (READS_THE_FIRST, "rows"),  # the source itself reads what is not there
        (GUARDED.replace("y[row] = sum", "y[row] = sum / (float)cols"), "rows"),
        (GUARDED, "rows * cols / cols"),
        (GUARDED.replace("y[row] = sum", "y[row] = sum + rows % cols"), "rows"),
    ],
)
def test_sizes_that_the_source_needs_are_not_0(tmp_path: Path, one: str, grid: str) -> None:
    other = one.replace("y[row] =", "if (cols > 0) y[row] =")
    ranges = ("range = [1, 64]", "")
    assert _verdict(tmp_path, one, other, grid=(grid, grid), ranges=ranges).status == "TESTED"


def test_a_maximum_of_nothing_is_an_infinity(tmp_path: Path) -> None:
    most = (
        GUARDED.replace("float sum = 0", "float sum = -INFINITY")
        .replace("sum += x", "sum = fmaxf(sum, x")
        .replace("+ i];", "+ i]);")
    )
    other = most.replace("-INFINITY", "-3.4028235e38f")
    assert _verdict(tmp_path, most, other).status == "REJECTED"
