"""What a workload says of parameters, where the source's launch makes them of numbers that nobody else knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc.ir.text import print_expr
from ktc.ir.workload import Workload

SOURCE = """
__global__ void copy(const float* x, float* y, int n, int pitch) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * pitch + i] = x[blockIdx.x * n + i];
}
void run(const float* x, float* y, int rows, int n, int wide) { copy<<<rows, 128>>>(x, y, n, PASSED); }
"""

FILE = """
[kernel]
source = "k.cu"
name = "copy"
[[args]]
name = "x"
dtype = "f32"
role = "in"
shape = ["rows", "n"]
[[args]]
name = "y"
dtype = "f32"
role = "out"
shape = ["rows", "PITCH"]
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
[[args]]
name = "pitch"
dtype = "i32"
role = "scalar"
value = "PITCH"
[[args]]
name = "rows"
dtype = "i32"
role = "scalar"
value = "rows"
[[scenario]]
name = "s"
sizes = { rows = 4, n = 8 }
"""


@pytest.mark.parametrize(
    ("passed", "pitch", "known"),
    [
        ("wide * 2", "2 * n", "2 * n"), ("wide * 2", "n", "n"),  # of the host's width nothing else is known
        ("n * 2", "2 * n", "n * 2"),  # as the source has it
    ],
)  # fmt: skip
def test_the_file_says_more_than_numbers_of_the_host(tmp_path: Path, passed: str, pitch: str, known: str) -> None:
    (tmp_path / "k.cu").write_text(SOURCE.replace("PASSED", passed))
    w = Workload.parse(FILE.replace("PITCH", pitch), tmp_path / "workload.toml")
    launch = w.load_kernel().launch
    assert launch is not None
    assert [print_expr(e) for name, e in launch.passed if name == "pitch"] == [known]
