"""Parameters that a kernel asks for nowhere."""

from __future__ import annotations

from pathlib import Path

import ktc
from ktc.scaffold.integers.unasked import unasked
from ktc.scaffold.text import workload_text
from ktc.sources import SourceSpec

SOURCE = """__global__ void k(float* y, int n, int rows, int mode) {
  if (threadIdx.x < n) y[threadIdx.x] = mode == 3 ? 1 : 2;
}
void go(float* y, int n, int mode) { k<<<1, 64>>>(y, n, rows_of(y), mode); }
"""


def test_their_values_are_no_doubt(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(SOURCE)
    program = ktc.load(str(path))
    assert unasked(program.kernel) == {"rows"}
    text, todo = workload_text(program.kernel, SourceSpec(str(path), "k"), tmp_path / "k.toml")
    assert "# the kernel does not ask for it" in text and "mode: its value" in todo
    assert not any("rows" in line for line in todo)
