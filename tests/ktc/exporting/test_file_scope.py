"""Variables at file scope that host code sets: the tuned kernel reads the program's own, or is not exported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Run = Callable[..., CompletedProcess[str]]
SMOOTH = """#include <math.h>
#define TAPS 5
DECLARED

void set(const float* taps) { cudaMemcpyToSymbol(w, taps, TAPS * sizeof(float)); }
__global__ void smooth(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float sum = 0.0f;
    for (int j = 0; j < TAPS; ++j) sum += WEIGHT * in[i + j];
    out[i] = sum;
  }
}
void go(float* out, const float* in, int n) { smooth<<<(n + 255) / 256, 256>>>(out, in, n); }
"""
PLAIN, SCRIPT = "__constant__ float w[TAPS];  // the taps", "raise | distribute{loop=i map=[thread.x 64, block.x]}"


def source(declared: str, weight: str = "w[j]") -> str:
    return SMOOTH.replace("DECLARED", declared).replace("WEIGHT", weight)


def test_the_tuned_kernel_reads_the_variable_of_the_program(
    tmp_path: Path, ktc_run: Run, needs: Callable[[str], str]
) -> None:
    needs("nvcc")
    (tmp_path / "k.cu").write_text(source(PLAIN))
    done = ktc_run("export", "k.cu", "--to", "source", "-p", SCRIPT, "-o", "out")
    assert done.returncode == 0 and "k.cu: compiled by nvcc" in done.stderr, done.stderr
    text = (tmp_path / "out/k.cu").read_text()
    assert f'{PLAIN}\n#include "smooth_tuned.cuh"\n' in text
    header = (tmp_path / "out/smooth_tuned.cuh").read_text()
    assert "w[j]" in header and "__constant__" not in header


@pytest.mark.parametrize(
    ("declared", "weight", "why"),
    [
        ("namespace a { __constant__ float w[TAPS]; }\nusing namespace a;", "w[j]", "declared in a namespace"),
        ("#ifdef TAPS\n__constant__ float w[TAPS];\n#endif", "w[j]", "under a condition"),
        ("__constant__ float w[1][TAPS];", "w[0][j]", "several dimensions"),
    ],
)
def test_a_variable_that_cannot_be_reached_is_said(
    tmp_path: Path, ktc_run: Run, declared: str, weight: str, why: str
) -> None:
    (tmp_path / "k.cu").write_text(source(declared, weight))
    done = ktc_run("export", "k.cu", "--to", "source", "-p", SCRIPT, "-o", "out", "--no-check")
    assert done.returncode == 1 and "E-EXPORT-SYMBOL" in done.stderr and why in done.stderr, done.stderr


def test_no_other_export_sets_it(tmp_path: Path, ktc_run: Run) -> None:
    (tmp_path / "k.cu").write_text(source(PLAIN))
    done = ktc_run("export", "k.cu", "--to", "cmake", "-p", SCRIPT, "-o", "out", "--no-check")
    assert done.returncode == 1 and "only --to source" in done.stderr, done.stderr
