"""Rows that lie apart: what is between them is nearly free, so that instances reach a whole tile of what they hold."""

from pathlib import Path

import pytest

from ktc.ir.workload import Workload
from ktc.search.verification.instances.instances import IDLE, MAX_ELEMENTS, Maker

SOURCE = """
__global__ void scale(const float* x, float* y, int n, int m) {
  int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
  if (i < n && j < m) y[i * 512 + j] = 2.0f * x[i * 512 + j];
}
"""
WORKLOAD = """
[kernel]
source = "k.cu"
name = "scale"
[[args]]
name = "x"
dtype = "f32"
role = "in"
shape = ["{shape}"]
[[args]]
name = "y"
dtype = "f32"
role = "out"
shape = ["{shape}"]
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
[[args]]
name = "m"
dtype = "i32"
role = "scalar"
value = "m"
[launch]
grid = ["cdiv(m, 32)", "cdiv(n, 8)"]
block = ["32", "8"]
[[scenario]]
name = "main"
sizes = {{ n = 1024, m = 512 }}
"""


@pytest.mark.parametrize(
    ("shape", "each"),
    [
        pytest.param("512 * n + m - 512", 80 * 80, id="n rows of m elements"),
        pytest.param("513 * n - 512", 80 * 80, id="n rows of n elements"),
        pytest.param("512 * n", 512 * 80, id="whole rows"),
        pytest.param("8192 * n + m - 8192", (8192 * 79 + 80) // IDLE, id="gaps are not free"),
    ],
)
def test_what_lies_between_rows_costs_little(tmp_path: Path, shape: str, each: int) -> None:
    (tmp_path / "k.cu").write_text(SOURCE)
    (tmp_path / "workload.toml").write_text(WORKLOAD.format(shape=shape))
    work = Workload.load(tmp_path)
    kernel = work.load_kernel()
    made = Maker((kernel, kernel), work, 16 * MAX_ELEMENTS).make({"n": 80, "m": 80})
    threads = 3 * 10 * 256
    assert made is not None and made.cost == 2 * each + threads
