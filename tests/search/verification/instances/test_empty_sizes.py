"""A number of things may be 0: what a candidate does then is looked at where nothing rules it out."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktc
from ktc.ir.frontend import load
from ktc.ir.workload import Workload
from ktc.search.verification import verify

KERNEL = """
__global__ void firsts(const float* x, float* y, int count) {
  float sum = x[threadIdx.x];
  for (int i = 1; i < count; ++i) sum += x[i * 32 + threadIdx.x];
  y[threadIdx.x] = LAST;
}
void go(const float* x, float* y, int count) { firsts<<<1, 32>>>(x, y, count); }
"""
OTHER = """
__global__ void firsts(const float* x, float* y, int count) {
  float sum = 0;
  for (int i = 0; i < count; ++i) sum = i == 0 ? x[threadIdx.x] : sum + x[i * 32 + threadIdx.x];
  y[threadIdx.x] = LAST;
}
void go(const float* x, float* y, int count) { firsts<<<1, 32>>>(x, y, count); }
"""
WORKLOAD = """
[kernel]
source = "k.cu"
name = "firsts"
[[args]]
name = "x"
dtype = "f32"
role = "in"
shape = ["4096"]
[[args]]
name = "y"
dtype = "f32"
role = "out"
shape = ["32"]
[[args]]
name = "count"
dtype = "i32"
role = "scalar"
value = "count"
RANGE
[[scenario]]
name = "small"
sizes = { count = 100 }
"""


def _verdict(folder: Path, last: str, range_: str) -> str:
    (folder / "k.cu").write_text(KERNEL.replace("LAST", last))
    (folder / "workload.toml").write_text(WORKLOAD.replace("RANGE", range_))
    other = load(OTHER.replace("LAST", last), name="other.cu")
    return verify(ktc.load(str(folder)).kernel, other, Workload.load(folder)).status


@pytest.mark.parametrize(
    ("range_", "status"), [("", "REJECTED"), ("range = [0, 128]", "REJECTED"), ("range = [1, 128]", "TESTED")]
)
def test_what_is_left_of_nothing(tmp_path: Path, range_: str, status: str) -> None:
    """The first element is in either sum; of none, the source keeps it, and the other has 0."""
    assert _verdict(tmp_path, "sum", range_) == status


@pytest.mark.parametrize("range_", ["", "range = [0, 128]"])
def test_quotients_by_0_are_nobody_s_promise(tmp_path: Path, range_: str) -> None:
    assert _verdict(tmp_path, "sum / (float)count", range_) == "TESTED"
