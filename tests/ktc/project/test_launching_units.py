"""Kernels that another unit of their project launches: drafts have that launch, and the instance that it launches."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import ktc
from ktc.__main__ import main
from ktc.project.launching_units import launching_units
from ktc.sources import SourceSpec

HEADER = """
#pragma once
template <typename T, int N> __global__ void scaled(const T* x, T* y, int n, float by);
__global__ void idle(float* x, int n);
"""

KERNELS = """
#include "kernels.cuh"
template <typename T, int N> __global__ void scaled(const T* x, T* y, int n, float by) {
  const int first = (blockIdx.x * blockDim.x + threadIdx.x) * N;
  for (int k = 0; k < N; ++k)
    if (first + k < n) y[first + k] = x[first + k] * (T)by;
}
template __global__ void scaled<float, 4>(const float*, float*, int, float);
template __global__ void scaled<float, 2>(const float*, float*, int, float);
__global__ void idle(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 0.0f; }
"""

OPS = """
#include "kernels.cuh"
static int blocks_for(int n, int each) { return (n + each - 1) / each; }
template <typename T, int N> void scale(const T* x, T* y, int n) {
  scaled<T, N><<<blocks_for(n, 128 * N), 128>>>(x, y, n, 1.0f / n);
}
template void scale<float, 8>(const float*, float*, int);
template void scale<float, 2>(const float*, float*, int);
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    for name, text in (("kernels.cuh", HEADER), ("kernels.cu", KERNELS), ("ops.cu", OPS)):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_unit_with_the_launch_is_found_by_its_text(project: Path) -> None:
    found = [Path(j.unit).name for j in launching_units(SourceSpec(str(project / "kernels.cu"), "scaled"))]
    assert found == ["ops.cu"]
    assert not [*launching_units(SourceSpec(str(project / "kernels.cu"), "idle"))]
    assert not [*launching_units(SourceSpec(str(project / "ops.cu"), "scaled"))]


def test_a_unit_in_a_folder_beside_launches_it_from_a_table(tmp_path: Path) -> None:
    files = {
        "common/kernels.cu": "__global__ void idle(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 0.0f; }\n",
        "host/ops.cpp": """__global__ void idle(float* x, int n);
void go(float* x, int n) {
  void* kernels[] = {(void*)idle};
  void* args[] = {&x, &n};
  cudaLaunchKernel(kernels[0], 1, 32, args, 0, 0);
}
""",
    }
    (tmp_path / ".git").mkdir()
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = [Path(j.unit).name for j in launching_units(SourceSpec(str(tmp_path / "common/kernels.cu"), "idle"))]
    assert found == ["ops.cpp"]


def test_a_draft_has_the_launch_of_the_other_unit(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = project / "workload.toml"
    assert main(["init", str(project / "kernels.cu"), "--kernel", "scaled", "-o", str(out)]) == 0
    text = out.read_text()
    drafted = tomllib.loads(text)
    assert drafted["kernel"]["template"] == {"T": "float", "N": "2"}  # what is launched and what there is
    assert drafted["launch"]["block"] == ["128", "1", "1"] and "256" in drafted["launch"]["grid"][0]
    assert "CHECK" not in text.split("[launch]")[1].split("\n")[0] and "ops.cu" in text
    assert next(a for a in drafted["args"] if a["name"] == "by")["value"] == "1.0 / n"
    assert "the launch" not in capsys.readouterr().err
    k = ktc.load(str(out)).kernel  # by itself, without the other unit
    assert k.launch is not None
