"""A text says for which scenarios of its workload it is not the one that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc import emission
from ktc.api import Program, load
from ktc.ir.workload.scenario_facts import runnable, unmet

SOURCE = """
__global__ void twice(float* y, const float* x, int n, int s) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i * s];
}
void run(float* y, const float* x, int n, int s) { twice<<<(n + 255) / 256, 256>>>(y, x, n, s); }
"""

WORKLOAD = """
[kernel]
source = "kernel.cu"
name = "twice"
[[args]]
name = "y"
dtype = "f32"
role = "out"
shape = ["n"]
align = 16
noalias = true
[[args]]
name = "x"
dtype = "f32"
role = "in"
shape = ["n * s"]
align = 16
[[args]]
name = "n"
dtype = "i32"
role = "scalar"
value = "n"
[[args]]
name = "s"
dtype = "i32"
role = "scalar"
value = "s"
[[scenario]]
name = "even"
sizes = { n = 4096, s = 1 }
[[scenario]]
name = "odd"
sizes = { n = 4097, s = 1 }
[[scenario]]
name = "apart"
sizes = { n = 4096, s = 2 }
"""


@pytest.fixture
def program(tmp_path: Path) -> Program:
    (tmp_path / "kernel.cu").write_text(SOURCE)
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    return load(str(tmp_path)).apply("raise").ok


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("distribute{loop=i map=[thread.x 256, block.x]}", ()),
        ("distribute{loop=i map=[vec 4, thread.x 256, block.x]}", (("the scenario odd", "n % 4 == 0"),)),
        ("specialize{s=1}", (("the scenario apart", "s == 1"),)),
        ("specialize{s=3}", (("every scenario of the workload", "s == 3"),)),
        ("specialize{n=4096}", (("the scenario odd", "n == 4096"),)),
    ],
)
def test_what_is_taken_for_granted_is_held_against_each_scenario(program: Program, script: str, said: tuple) -> None:
    output = emission.emit(program.apply(script).ok, "cuda", "source", {})
    found = [note for note in output.notes if note.startswith("the launcher runs")]
    assert found == [f"the launcher runs the source's kernel for {who}: '{what}' does not hold" for who, what in said]


def test_a_kernel_as_it_stands_falls_back_on_nothing(tmp_path: Path, program: Program) -> None:
    plain = load(str(tmp_path))
    assert not [n for n in emission.emit(plain, "cuda", "source", {}).notes if "scenario" in n]


def test_the_first_thing_that_does_not_hold_is_named(program: Program) -> None:
    assert program.workload is not None
    k = program.apply("distribute{loop=i map=[vec 4, thread.x 256, block.x]}").ok.kernel
    assert runnable(k, program.workload, {"n": 8, "s": 1})
    assert unmet(k, program.workload, {"n": 9, "s": 1}) == "n % 4 == 0"
