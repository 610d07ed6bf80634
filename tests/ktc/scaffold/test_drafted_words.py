"""Parameters called as Python's words are: drafted, read again, verified."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktc
from ktc.scaffold.text import with_draft

LINEAR = """
__global__ void linear(float* y, const float* x, const float* w, int rows, int IN, int OUT) {
  int r = blockIdx.x * blockDim.x + threadIdx.x, o = blockIdx.y * blockDim.y + threadIdx.y;
  if (r < rows && o < OUT) {
    float sum = 0.0f;
    for (int i = 0; i < IN; i++) sum += x[r * IN + i] * w[o * IN + i];
    y[r * OUT + o] = sum;
  }
}
void run(float* y, const float* x, const float* w, int batch, int length, int IN, int OUT) {
  dim3 block(16, 16), grid((batch * length + 15) / 16, (OUT + 15) / 16);
  linear<<<grid, block>>>(y, x, w, batch * length, IN, OUT);
}
"""


@pytest.mark.parametrize(("a", "b"), [("in", "out"), ("lambda", "is"), ("None", "True"), ("def", "pass")])
def test_a_draft_with_such_sizes_is_read_again_and_verified(tmp_path: Path, a: str, b: str) -> None:
    (tmp_path / "k.cu").write_text(LINEAR.replace("IN", a).replace("OUT", b))
    program, _ = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)
    assert program.workload is not None
    assert program.workload.arg("w").shape == (b, a)
    assert program.apply("raise").verify(device="none").ok
