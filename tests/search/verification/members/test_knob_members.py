"""Branches that, at a candidate's knobs, only sizes enter that cost too much to run: seen at smaller values of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc.api import load
from ktc.ir.text import parse_kernel, print_kernel
from ktc.search.verification import ladder, verify

SOURCE = """
__global__ void twice(float* out, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2.0f * x[i];
}
void run(float* out, const float* x, int n) { twice<<<(n + 255) / 256, 256>>>(out, x, n); }
"""

WORKLOAD = """
[kernel]
source = "kernel.cu"
name = "twice"
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
shape = ["n"]
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
range = [1, 100000000]
[[scenario]]
name = "main"
sizes = { n = 10000000 }
"""

FAR = "1024 * ($T * $U)"
"""More than eight million elements for 1024 threads of 8 elements, 32768 for 32 threads of one."""


def judged(tmp_path: Path, far: str):
    (tmp_path / "kernel.cu").write_text(SOURCE)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    script = "raise | distribute{loop=i map=[thread.x $T=1024, unroll $U=8, block.x]}"
    program = load(str(tmp_path)).apply(script).ok.bind(T=1024, U=8)
    text = print_kernel(program.lowered())
    line = next(x for x in text.splitlines() if "out[" in x)
    left, right = line.strip().split(" = ")
    index, indent = left[4:-1], line[: len(line) - len(line.lstrip())]
    branch = [f"if {index} >= {FAR}", f"  {left} = {far.format(right)}", "else", f"  {left} = {right}"]
    assert program.original is not None and program.workload is not None
    return verify(
        program.original, parse_kernel(text.replace(line, "\n".join(indent + b for b in branch))), program.workload
    )


def test_a_branch_is_entered_at_smaller_knobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = judged(tmp_path, "{0}")
    assert verdict.ok, verdict.reason
    monkeypatch.setattr(ladder, "learn_from_smaller_knobs", lambda job, missing: None)
    assert "never entered" in judged(tmp_path, "{0}").reason


@pytest.mark.parametrize("far", ["{0} + 1.0", "{0} * f32($T / 32)", "{0} * f32($U)", "{0} * f32(32 / $T)"])
def test_what_is_wrong_in_it_is_no_less_wrong(tmp_path: Path, far: str) -> None:
    """Some of it is right for the smallest values of the knobs."""
    verdict = judged(tmp_path, far)
    assert not verdict.ok
