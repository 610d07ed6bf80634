"""What a candidate has to do is what a launch of the original can be asked for: no grid has more than 65,535 blocks
along y, so that ``n * h`` rows which have a block each there are no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc.ir.text import canonical, parse_kernel
from ktc.ir.workload import Workload
from ktc.search.verification import verify

SOURCE = """\
kernel k(x: f32 const* noalias, y: f32* noalias, n: i32 range 1..65535, h: i32 range 1..65535)
  launch grid(1, n * h) block(32)
  let row: i32 = i32(blockIdx.y)
  y[row * 32 + i32(threadIdx.x)] = x[row * 32 + i32(threadIdx.x)]
"""

WORKLOAD = """
[kernel]
source = "k.ktir"
name = "k"
[[args]]
name = "x"
dtype = "f32"
role = "in"
shape = ["n * h * 32"]
[[args]]
name = "y"
dtype = "f32"
role = "out"
shape = ["n * h * 32"]
noalias = true
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
range = [1, 65535]
[[args]]
name = "h"
dtype = "i32"
role = "scalar"
value = "h"
range = [1, 65535]
[[scenario]]
name = "small"
sizes = { n = 3, h = 5 }
"""


@pytest.mark.parametrize(
    ("index", "status"),
    [
        ("i32(blockIdx.x)", "TESTED"),  # rows that the original's launch has
        ("(i32(blockIdx.x) * 65536 + i32(threadIdx.x)) / 65536", "REJECTED"),  # beyond 32 bits for these, too
    ],
)
def test_rows_along_x_are_those_that_there_were_along_y(tmp_path: Path, index: str, status: str) -> None:
    (tmp_path / "k.ktir").write_text(SOURCE)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    original = canonical(parse_kernel(SOURCE))
    text = SOURCE.replace("grid(1, n * h)", "grid(n * h)").replace("i32(blockIdx.y)", index)
    work = Workload.load(tmp_path)
    verdict = verify(original, canonical(parse_kernel(text)), work)
    assert verdict.status == status, str(verdict)
