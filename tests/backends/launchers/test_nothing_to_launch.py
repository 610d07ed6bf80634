"""Sizes of 0: a grid without blocks is launched by no API, and nothing divides by it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ktc
from ktc import emission
from ktc.backends.launchers.launch_geometry import geometry
from ktc.ir.kernel import Kernel
from ktc.ir.text import parse_kernel, print_expr
from tests.backends.launchers.fake_cupy import buffer, launcher

ADD = """\
__global__ void add(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += x[i];
}
void run(float* y, const float* x, int n) { add<<<(n + 63) / 64, 64>>>(y, x, n); }
"""
VECTORS = "raise | distribute{loop=i map=[vec 4, thread.x 64, block.x]}"


def printed(target: str, kind: str = "launcher", script: str = "raise") -> str:
    return emission.emit(ktc.loads(ADD, name="add").apply(script).ok, target, kind, {}).text


def kernel(facts: str = "", n: str = "n: i32", grid: str = "cdiv(n, 64)") -> Kernel:
    text = f"kernel k(x: f32*, {n}, d: i32)\n  launch grid({grid}) block(64)\n{facts}  x[0] = 1.0"
    return parse_kernel(text)


@pytest.mark.parametrize(
    ("given", "unsure"),
    [
        (kernel(), ["n"]),
        (kernel('  trace "raise"\n  assume 0 < n\n'), []),
        (kernel('  trace "raise"\n', n="n: i32 range 1..4096"), []),  # tested before it is launched
        (kernel(n="n: i32 range 1..4096"), ["n"]),  # the source's kernel runs for any sizes
        (kernel(n="n: i32 range 0..4096"), ["n"]),
        (kernel(grid="n, d"), ["n", "d"]),
        (kernel(grid="16"), []),
    ],
)
def test_extents_that_may_be_none(given: Kernel, unsure: list[str]) -> None:
    assert [print_expr(e) for e in geometry(given).unsure] == unsure


def test_the_launcher_returns_before_it_launches_nothing() -> None:
    line = "if (n <= 0) return {}; "
    assert line.format("cudaSuccess") in printed("cuda")
    assert line.format("hipSuccess") in printed("hip")
    assert line.format("CL_SUCCESS") in printed("opencl")
    assert printed("cuda", script=VECTORS).count("return cudaSuccess;") == 2, "the original's launch, and the other one"


def test_python_launches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    launch, launched = launcher(monkeypatch, printed("cuda", "launcher-cupy"))
    launch(buffer(0), buffer(0), 0)
    assert launched == []


def test_numba_does_nothing() -> None:
    pytest.importorskip("numba")
    module: dict[str, Any] = {}
    exec(printed("numba", "source").replace("cache=True", "cache=False"), module)
    nothing = np.zeros(0, np.float32)
    module["add"](nothing, nothing, 0)


def test_what_is_divided_by_is_tested_first() -> None:
    """``n % d`` of a size of 0 ends the program, where the original would have run."""
    given = kernel('  trace "raise"\n  assume n % d == 0 origin guessed\n', n="n: i32 range 1..64", grid="n")
    facts = [print_expr(e) for e in geometry(given).facts]
    assert facts.index("d != 0") < facts.index("n % d == 0")
    known = kernel('  trace "raise"\n  assume n % d == 0 origin guessed\n  assume d > 4 origin guessed\n', grid="16")
    assert [print_expr(e) for e in geometry(known).facts] == ["d > 4", "n % d == 0"]
    launched = kernel('  trace "raise"\n', grid="1024 / d")
    assert "d != 0" in [print_expr(e) for e in geometry(launched).facts]


MAIN = """
#include <cstdio>
int main() {
  std::printf("%d %d", launch_add(nullptr, nullptr, 0, 0), launch_add(nullptr, nullptr, -5, 0));
}
"""


def test_no_api_is_asked_to_launch_nothing(tmp_path: Path, needs: Callable[[str], str]) -> None:
    """With a device or without one, all is well."""
    path = tmp_path / "program.cu"
    path.write_text(printed("cuda", script=VECTORS) + MAIN)
    program = tmp_path / "program"
    command = [needs("nvcc"), "-std=c++17", "-arch=sm_90", str(path), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert subprocess.run([program], capture_output=True, text=True).stdout == "0 0"
