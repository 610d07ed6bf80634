"""A second block of a launch whose threads have long work each: its sizes follow from the block, whatever they cost."""

from __future__ import annotations

from pathlib import Path

from ktc.api import load
from ktc.search.verification import verify

SOURCE = """
__global__ void triangle(float* out, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.0f;
  for (int j = 0; j <= i; j++)
    for (int c = 0; c < 256; c++) sum += x[j * 256 + c];
  out[i] = sum;
}
void run(float* out, const float* x, int n) { triangle<<<(n + 127) / 128, 128>>>(out, x, n); }
"""

WORKLOAD = """
[kernel]
source = "kernel.cu"
name = "triangle"
[[args]]
name = "out"
dtype = "f32"
role = "out"
shape = ["n"]
noalias = true
[[args]]
name = "x"
dtype = "f32"
role = "in"
shape = ["n", 256]
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
range = [1, 4096]
[[scenario]]
name = "main"
sizes = { n = 2048 }
"""


def test_a_second_block_of_long_work_is_tried(tmp_path: Path) -> None:
    (tmp_path / "kernel.cu").write_text(SOURCE)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    program = load(str(tmp_path)).apply("raise | distribute{loop=i map=[thread.x 32, block.x]}").ok
    assert program.original is not None and program.workload is not None
    verdict = verify(program.original, program.lowered(), program.workload, layers=("verifier", "static", "exact"))
    assert verdict.ok, verdict.reason
