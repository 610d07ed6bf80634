"""Code of rewritten kernels leaves with a verdict, or says on its first line that it has none."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Const
from ktc.ir.types import F32
from ktc.ir.walk import map_body
from ktc.passes.core.arguments import NoArguments
from ktc.passes.core.base import Result
from ktc.passes.raising.raise_ import Raise

Run = Callable[..., subprocess.CompletedProcess[str]]

SCALE = """__global__ void scale(float* __restrict__ y, const float* __restrict__ x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
void run(float* y, const float* x, int n) { scale<<<(n + 255) / 256, 256>>>(y, x, n); }
"""
UNVERIFIED = "NOT VERIFIED: nobody asked"


@pytest.fixture
def scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("KTC_CACHE", str(tmp_path / "cache"))
    (tmp_path / "scale.cu").write_text(SCALE)
    return "scale.cu"


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that is at fault, and whose own check has not noticed: twice is three times."""
    right = Raise.apply

    def apply(self: Raise, kernel: Kernel, args: NoArguments) -> Result:
        done = right(self, kernel, args)
        three = Const(3.0, F32)
        body = map_body(done.kernel.body, lambda s: s, lambda e: three if e == Const(2.0, F32) else e)
        return Result(done.kernel.with_(body=body), done.notes)

    monkeypatch.setattr(Raise, "apply", apply)


@pytest.mark.usefixtures("wrong")
@pytest.mark.parametrize("command", [("lower",), ("port", "--to", "opencl"), ("export", "--to", "numpy")], ids=str)
def test_what_the_ladder_rejects_is_not_handed_out(ktc_run: Run, scale: str, command: tuple[str, ...]) -> None:
    done = ktc_run(command[0], scale, *command[1:], "-p", "raise", "-o", "out")
    assert done.returncode == 1 and "E-VERIFY-FAILED" in done.stderr and "y[0]" in done.stderr
    assert "--no-verify" in done.stderr and not Path("out").exists()


@pytest.mark.parametrize(
    ("emit", "comment"), [("source", "//"), ("template", "//"), ("ir", "#"), ("launcher", "//"), ("launcher-cupy", "#")]
)
def test_what_nobody_verified_says_so_first(ktc_run: Run, scale: str, emit: str, comment: str) -> None:
    done = ktc_run("lower", scale, "-p", "raise", "--emit", emit, "--no-verify")
    assert done.stdout.startswith(f"{comment} {UNVERIFIED}") and UNVERIFIED in done.stderr


def test_a_verdict_is_a_line_beside_a_text_that_stays_as_it_is(ktc_run: Run, scale: str) -> None:
    done = ktc_run("lower", scale, "-p", "raise")
    plain = ktc_run("lower", scale, "-p", "raise", "--no-verify").stdout
    assert "note: TESTED: " in done.stderr and "ktc-out/scale/workload.toml says, a draft" in done.stderr
    assert plain.split("\n", 1)[1] == done.stdout
    again = json.loads(ktc_run("lower", scale, "-p", "raise", "--json").stdout)
    assert again["verdict"]["cached"] and again["not_verified"] is None


def test_time_that_is_over_is_said(ktc_run: Run, scale: str) -> None:
    done = ktc_run("port", scale, "--to", "numba", "-p", "raise", "--time-limit", "0.001", "--json")
    found = json.loads(done.stdout)
    assert found["verdict"] is None and "no verdict after 0.001 s" in found["not_verified"]
    assert found["text"].startswith("# NOT VERIFIED: ")


def test_of_a_kernel_as_it_is_there_is_nothing_to_say(ktc_run: Run, scale: str) -> None:
    done = ktc_run("lower", scale, "--backend", "hip")
    assert done.returncode == 0 and "VERIFIED" not in done.stdout + done.stderr and "TESTED" not in done.stderr


def test_what_was_raised_elsewhere_keeps_its_line(ktc_run: Run, scale: str) -> None:
    text = ktc_run("lower", scale, "-p", "raise", "--emit", "ir", "--no-verify").stdout
    assert f"// {UNVERIFIED}" in ktc_run("lower", "-", stdin=text).stdout


def test_a_defect_of_the_draft_is_no_fault_of_the_passes(ktc_run: Run, scale: str, tmp_path: Path) -> None:
    """Called with a buffer that is too short, the source itself is defective: nothing can be compared with it."""
    ktc_run("lower", scale, "-p", "raise")
    sheet = tmp_path / "ktc-out/scale/workload.toml"
    sheet.write_text(sheet.read_text().replace('shape = ["n"]', 'shape = ["n - 1"]', 1))
    done = ktc_run("lower", scale, "-p", "raise")
    assert done.returncode == 0 and done.stdout.startswith("// NOT VERIFIED: original: ")
