"""A barrier that only the launches meant can justify: printed and reported, never optimised."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ktc.api import load
from ktc.cli.app import run as command
from ktc.emission import port_report
from ktc.ir.interp import run
from ktc.ir.verifier import check, unproved

SOURCE = """\
__global__ void turn(float *x, int n) {
  __shared__ float s[64];
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n) {
    s[threadIdx.x] = x[i];
    __syncthreads();
    x[i] = s[63 - threadIdx.x];
  }
}
void host(float *x, int n) { turn<<<(n + 63) / 64, 64>>>(x, n); }
"""


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "turn.cu"
    path.write_text(SOURCE)
    return str(path)


def test_the_kernel_is_taken_and_printed(source: str) -> None:
    program = load(source)
    check(program.kernel)
    (told,) = unproved(program.kernel)
    assert (told.code, told.loc.line) == ("V-BARRIER", 6)  # type: ignore[union-attr]
    for target, word in (("cuda", "__syncthreads"), ("hip", "__syncthreads"), ("opencl", "barrier(")):
        assert word in program.lower(target).text
        first = port_report(program, target)[0]
        assert "needs attention" in first["becomes"] and first["place"].endswith("turn.cu:6:5")


def test_the_launch_decides(source: str) -> None:
    kernel = load(source).kernel
    x = np.arange(128, dtype=np.float32)
    got = run(kernel, {"x": x, "n": 128})
    assert not got.findings and (got.outputs["x"] == x.reshape(2, 64)[:, ::-1].ravel()).all()
    assert run(kernel, {"x": x, "n": 100}).findings[0].kind == "barrier-divergence"


def test_passes_leave_it_alone(source: str) -> None:
    program = load(source)
    tried = program.apply("fast-math{fns=exp}")
    assert tried.refused is not None and tried.refused.code == "E-BARRIER-UNPROVED"
    assert tried.refused.locs[0].line == 6 and tried.kernel is program.kernel


def test_lower_says_so(source: str, capsys: pytest.CaptureFixture) -> None:
    command(["lower", source, "--backend", "cuda"])
    assert "turn.cu:6:5: a barrier that only some threads" in capsys.readouterr().err
