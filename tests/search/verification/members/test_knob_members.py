"""Branches that, at a candidate's knobs, only sizes enter that cost too much to run: seen at smaller values of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc.api import load
from ktc.ir.text import parse_kernel, print_kernel
from ktc.search.verification import ladder, verify
from ktc.search.verification.instances.instances import Maker
from ktc.search.verification.members import knob_members

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
    monkeypatch.setattr(ladder, "learn_from_smaller_knobs", lambda job, missing: False)
    assert "never entered" in judged(tmp_path, "{0}").reason


@pytest.mark.parametrize("far", ["{0} + 1.0", "{0} * f32($T / 32)", "{0} * f32($U)", "{0} * f32(32 / $T)"])
def test_what_is_wrong_in_it_is_no_less_wrong(tmp_path: Path, far: str) -> None:
    """Some of it is right for the smallest values of the knobs."""
    verdict = judged(tmp_path, far)
    assert not verdict.ok


def test_nothing_larger_is_run_than_what_is_missing_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []
    last: list[tuple[int, int]] = []  # the largest size that was run, and the one that told the most
    real, telling = knob_members.run, knob_members._telling

    def run(kernel, args, **options):
        ran.append(args["n"])
        return real(kernel, args, **options)

    def followed(job, kernel, missing):
        ran.clear()
        found = telling(job, kernel, missing)
        last.extend((max(ran), i.sizes["n"]) for i in found[-1:])
        return found

    monkeypatch.setattr(knob_members, "run", run)
    monkeypatch.setattr(knob_members, "_telling", followed)
    assert judged(tmp_path, "{0}").ok
    assert last and all(most == told for most, told in last)


def test_sizes_grow_alone_and_beside_others_that_are_not_small() -> None:
    """What the inner of two loops does for long rows is seen only where there are rows enough for the outer one."""
    program = load("training/column_sum", variant="f32")
    assert program.original is not None and program.workload is not None
    maker = Maker((program.original, program.lowered()), program.workload, 100_000)
    sizes = [dict(i.sizes) for i in knob_members._growing(maker)]
    assert {"n": 3, "d": 1543} in sizes and {"n": 33, "d": 1543} in sizes and {"n": 775, "d": 33} in sizes
    assert all(s["n"] * s["d"] <= 100_000 for s in sizes)
