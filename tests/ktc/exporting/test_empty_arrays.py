"""Exports on arrays without elements: what the source writes is written, and no library or API is asked for nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.devices import working

Run = Callable[..., subprocess.CompletedProcess[str]]

SUMS = """\
__global__ void sums(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  float s = 0;
  for (int c = 0; c < cols; ++c) s += x[blockIdx.x * cols + c];
  y[blockIdx.x] = s;
}
void run(const float* x, float* y, int rows, int cols) { sums<<<rows, 1>>>(x, y, rows, cols); }
"""

CALLS = {
    "numpy": "import numpy\ndef make(*s): return numpy.ones(s, 'f4')\ndef back(x): return x",
    "pyopencl": (
        "import pyopencl as cl, pyopencl.array\n"
        "queue = cl.CommandQueue(cl.create_some_context(interactive=False))\n"
        "def make(*s): return cl.array.zeros(queue, s, 'f4')\ndef back(x): return x.get()"
    ),
}

SCRIPT = """
import sums
print(back(sums.sums(make(0, 5))).tolist(), back(sums.sums(make(2, 0))).tolist())
"""


@pytest.mark.parametrize("to", list(CALLS))
def test_arrays_without_elements(tmp_path: Path, ktc_run: Run, to: str) -> None:
    working({"numpy": "numba", "pyopencl": "opencl"}[to])
    (tmp_path / "sums.cu").write_text(SUMS)
    done = ktc_run("export", "sums.cu", "--to", to, "-p", "raise", "-o", "out")
    assert done.returncode == 0, done.stderr
    command = [sys.executable, "-c", CALLS[to] + SCRIPT]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path / "out")
    assert ran.stdout == "[] [0.0, 0.0]\n", ran.stderr


MAIN = """\
#include "sums.h"
#include <cstdio>
int main() { std::printf("%d %d", sums(nullptr, nullptr, 0, 3, 0), sums(nullptr, nullptr, 0, 0, 0)); }
"""


def test_a_library_launches_nothing(tmp_path: Path, ktc_run: Run, needs: Callable[[str], str]) -> None:
    """With a device or without one."""
    nvcc = needs("nvcc")
    (tmp_path / "sums.cu").write_text(SUMS)
    done = ktc_run("export", "sums.cu", "--to", "cmake", "-p", "raise", "-o", "out", "--no-check")
    assert done.returncode == 0, done.stderr
    (tmp_path / "out" / "main.cu").write_text(MAIN)
    command = [nvcc, "-std=c++17", "-arch=sm_90", "main.cu", "sums.cu", "-o", "program"]
    built = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path / "out")
    assert built.returncode == 0, built.stderr
    assert subprocess.run([tmp_path / "out" / "program"], capture_output=True, text=True).stdout == "0 0"
