"""What is promised of the integers in arrays decides branches that no input can reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc.ir.workload import Workload
from ktc.passes.core.language import parse_script
from ktc.passes.core.pipeline import apply_script
from ktc.search.verification import verify

COUNTS = """\
kernel letters(c: i32*, x: i8 const* readonly, n: i32 range 1..100000)
  launch grid(cdiv(n, 64)) block(64)
  let i: i32 = i32(blockIdx.x) * 64 + i32(threadIdx.x)
  if i < n
    atomic add c[(x[i] - 97) / 4], 1
"""
WORKLOAD = """
[kernel]
source = "k.ktir"
name = "letters"
[[args]]
name = "c"
dtype = "i32"
role = "inout"
shape = ["7"]
init = "zeros"
[[args]]
name = "x"
dtype = "i8"
role = "in"
shape = ["n"]
init = "ints"
range = [97, 122]
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
range = [1, 100000]
[[scenario]]
name = "main"
sizes = { n = 4000 }
"""
OWN = (
    "raise | tile{loops=i sizes=256} | distribute{loop=i map=[thread.x 64, seq]}"
    " | privatize-atomics{array=c bins=BINS copies=2}"
)


@pytest.mark.parametrize("bins", [256, 7, 4])
def test_elements_beyond_those_that_a_block_counts_need_no_input_if_there_are_none(tmp_path: Path, bins: int) -> None:
    (tmp_path / "k.ktir").write_text(COUNTS)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    workload = Workload.load(tmp_path)
    kernel = workload.load_kernel()
    done = apply_script(kernel, parse_script(OWN.replace("BINS", str(bins))))
    assert done.refused is None, done.refused
    verdict = verify(kernel, done.kernel, workload)
    assert verdict.ok, verdict
