"""Where nothing says what the original's results are, a difference is not said to be the rewrite's fault."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktc
from ktc.scaffold import with_draft

NEIGHBOURS = """
__global__ void k(const float* x, float* y, int n) {
  __shared__ float s[CELLS];
  int t = threadIdx.x, i = blockIdx.x * 32 + t;
  s[t] = i < n ? x[i] : 0.0f;
  FIRST
  __syncthreads();
  if (i < n) y[i] = s[t] + s[t + 1];
}
void go(const float* x, float* y, int n) { k<<<(n + 31) / 32, 32>>>(x, y, n); }
"""
ALL = NEIGHBOURS.replace("CELLS", "33").replace("FIRST", "if (t == 0) s[32] = 1.0f;")


@pytest.mark.parametrize(("cells", "first", "open_"), [("34", "", True), ("33", "if (t == 0) s[32] = 2.0f;", False)])
def test_what_is_read_and_never_written_is_named(tmp_path: Path, cells: str, first: str, open_: bool) -> None:
    (tmp_path / "k.cu").write_text(NEIGHBOURS.replace("CELLS", cells).replace("FIRST", first))
    program, _ = with_draft(ktc.load(str(tmp_path / "k.cu")), tmp_path)
    verdict = program.rewritten_as(ktc.loads(ALL)).verify(device="none")
    assert verdict.status == "REJECTED" and verdict.failure is not None
    assert ("uninitialised" in verdict.failure.undefined) == open_
    assert ("nothing says what the original's results are there" in verdict.reason) == open_
