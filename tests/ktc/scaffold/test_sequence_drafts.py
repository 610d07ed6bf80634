"""Workloads of sequences drafted from host code: roles, shapes, and what is left to do."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import ktc
from ktc.ir.diagnostics import KtcError
from ktc.ir.workload import Workload
from ktc.scaffold.sequences import chosen_sequence, sequence_text

Run = Callable[..., subprocess.CompletedProcess[str]]

SOURCE = """\
#include <cuda_runtime.h>
template <typename T>
__global__ void scale(const T* x, T* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i];
}
__global__ void shift(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + 1.0f;
}
void forward(const float* h, float* result, int rows, int d) {
  float *x, *tmp, *out;
  const int n = rows * d;
  const int threads = 128;
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&tmp, n * sizeof(float));
  cudaMalloc(&out, n * sizeof(float));
  cudaMemcpy(x, h, n * sizeof(float), cudaMemcpyHostToDevice);
  scale<float><<<(n + threads - 1) / threads, threads>>>(x, tmp, 1.0f / rows, n);
  shift<<<(n + threads - 1) / threads, threads>>>(tmp, out, n);
  cudaMemcpy(result, out, n * sizeof(float), cudaMemcpyDeviceToHost);
}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "layers.cu"
    file.write_text(SOURCE)
    return file


def draft(source: Path, function: str = "") -> tuple[Workload, list[str]]:
    sequence, _ = chosen_sequence(str(source), function)
    target = source.with_name("drafted.toml")
    text, todo = sequence_text(sequence, str(source), target)
    target.write_text(text)
    return Workload.load(target), todo


def test_roles_shapes_and_launches_follow_from_the_host(source: Path) -> None:
    work, todo = draft(source)
    assert {a.name: (a.role, a.shape) for a in work.args if a.role != "scalar"} == {
        "x": ("in", ("rows * d",)), "out": ("out", ("rows * d",)),
    }  # fmt: skip
    assert [(a.name, a.shape) for a in work.temporaries] == [("tmp", ("rows * d",))]
    assert all(a.noalias and not a.guessed for a in work.args if a.role != "scalar")
    assert [(x.kernel, x.template, x.passed) for x in work.launches] == [
        ("scale", {"T": "float"}, {"y": "tmp", "n": "rows * d"}),
        ("shift", None, {"x": "tmp", "y": "out", "n": "rows * d"}),
    ] and [x.launch.grid for x in work.launches if x.launch] == [("(rows * d + 127) / 128",)] * 2
    assert "a: its value" in todo  # 1.0f / rows is a number that the host computes
    assert work.kernel_name == "forward_launches"


def test_a_drafted_sequence_is_fused_and_verified(source: Path, ktc_run: Run) -> None:
    done = ktc_run("fuse", str(source), "--function", "forward", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["verdict"]["status"] == "TESTED" and "fuse-launches" in said["script"] and "tmp[" not in said["text"]
    program = ktc.load(str(source.with_name("forward.toml")))
    assert program.kernel.is_sequence


def test_threads_of_a_block_are_no_size(source: Path) -> None:
    """Though a kernel that is passed them has a loop as long."""
    summed = """
__global__ void sums(const float* x, float* y, int n, int threads) {
  extern __shared__ float part[];
  part[threadIdx.x] = blockIdx.x * threads + threadIdx.x < n ? x[blockIdx.x * threads + threadIdx.x] : 0.0f;
  for (int s = threads / 2; s > 0; s /= 2) {
    __syncthreads();
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
  }
  if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
void go(const float* x, float* y, float* z, int n, int threads) {
  sums<<<(n + threads - 1) / threads, threads, threads * sizeof(float)>>>(x, y, n, threads);
  shift<<<(n + threads - 1) / threads, threads>>>(y, z, (n + threads - 1) / threads);
}
"""
    source.write_text(SOURCE + summed)
    work, todo = draft(source, "go")
    assert all({*s.sizes} == {"n"} for s in work.scenarios)
    assert {a.name: a.value for a in work.args}["threads"] == 256 and "threads: its value" in todo


GATHER = """
__global__ void gather(const float* x, float* y, const float* table, const int* at, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + table[at[i]];
}
"""


def test_what_only_a_guess_keeps_apart_is_said(source: Path, ktc_run: Run) -> None:
    """Memory of parameters: noalias is guessed. What is read of a table no launcher can tell; taken out of the guesses
    the launches are one."""
    arguments = "const float* x, float* y, float* z, const float* table, const int* at, int n"
    launches = "scale<float><<<(n + 63) / 64, 64>>>(x, y, 2.0f, n); gather<<<(n + 63) / 64, 64>>>(y, z, table, at, n);"
    source.write_text(f"{SOURCE}{GATHER}void go({arguments}) {{ {launches} }}\n")
    done = ktc_run("fuse", str(source), "--function", "go", "--no-verify")
    sheet = source.with_name("go.toml")
    assert done.returncode == 1 and "take noalias of x, y, z" in done.stderr and f"`guessed` in {sheet}" in done.stderr
    sheet.write_text(sheet.read_text().replace('"noalias", ', ""))
    assert ktc_run("fuse", str(sheet), "--no-verify").returncode == 0


def test_what_a_launcher_can_tell_apart_is_one_launch(source: Path, ktc_run: Run) -> None:
    body = "void go(const float* x, float* y, float* z, int n) { scale<float><<<(n + 63) / 64, 64>>>(x, y, 2.0f, n); "
    source.write_text(SOURCE + body + "shift<<<(n + 63) / 64, 64>>>(y, z, n); }\n")
    done = ktc_run("fuse", str(source), "--function", "go", "--no-verify")
    assert done.returncode == 0 and "stay apart" not in done.stderr


def test_an_element_that_no_launch_writes_makes_an_input(source: Path) -> None:
    source.write_text(SOURCE.replace("1.0f / rows, n)", "2.0f, n / 2)"))
    work, todo = draft(source)
    assert {a.name: a.role for a in work.args}["tmp"] == "inout" and not work.temporaries
    assert any(x.startswith("tmp: launches read elements that no launch has written") for x in todo)


def test_one_function_of_a_file_of_several_kernels_is_taken(source: Path, tmp_path: Path, ktc_run: Run) -> None:
    calls = "int main() { float a[4]; forward(a, a, 2, 2); }\n"  # is no second one
    source.write_text(SOURCE + calls)
    done = ktc_run("init", str(source))
    assert done.returncode == 0 and "launches 1 to 2 of forward: scale, shift" in done.stderr
    assert f"next: ktc fuse {tmp_path / 'forward.toml'}" in done.stderr
    again = ktc_run("init", str(source))
    assert again.returncode == 2 and "--force overwrites it" in again.stderr


def test_one_kernel_that_is_launched_twice_is_a_kernel(source: Path, ktc_run: Run) -> None:
    one = SOURCE.replace("shift<<<", "scale<float><<<").replace("(tmp, out, n)", "(tmp, out, 1.0f, n)")
    source.write_text(one[: one.index("__global__ void shift")] + one[one.index("void forward") :])
    done = ktc_run("init", str(source))
    assert done.returncode == 0 and f"wrote {source.with_name('workload.toml')}" in done.stderr


def test_what_keeps_launches_apart_is_shown_in_place(source: Path, ktc_run: Run) -> None:
    between = "  cudaMemcpy(result, tmp, 4, cudaMemcpyDeviceToHost);\n  shift<<<"
    source.write_text(SOURCE.replace("  shift<<<", between))
    done = ktc_run("init", str(source), "--function", "forward")
    assert done.returncode == 1 and f"{source}:20:3" in done.stderr
    assert "cudaMemcpy reads 'tmp' between the launches [E-SEQUENCE-NONE]" in done.stderr
    assert "cudaMemcpy(result, tmp, 4, cudaMemcpyDeviceToHost);\n" in done.stderr and "^" in done.stderr
    assert f"ktc init {source} --kernel NAME" in done.stderr


def test_a_part_of_a_sequence(source: Path) -> None:
    """What the part leaves for later launches is an output of it."""
    third = "  shift<<<(n + threads - 1) / threads, threads>>>(out, x, n);\n  cudaMemcpy(result"
    source.write_text(SOURCE.replace("  cudaMemcpy(result", third))
    whole, _ = chosen_sequence(str(source), "forward")
    assert [s.kernel for s in whole.steps] == ["scale", "shift", "shift"]
    part, _ = chosen_sequence(str(source), "forward", (1, 2))
    assert {p.memory.name: p.read_later for p in part.memories} == {"x": True, "tmp": False, "out": True}
    part, _ = chosen_sequence(str(source), "forward", (2, 3))
    assert {p.memory.name: p.filled for p in part.memories} == {"tmp": True, "out": False, "x": True}
    with pytest.raises(KtcError) as no:
        chosen_sequence(str(source), "forward", (3, 4))
    assert no.value.code == "E-SEQUENCE-NONE" and "--launches 1..3" in no.value.hint


def test_a_name_that_no_function_has(source: Path) -> None:
    with pytest.raises(KtcError) as no:
        chosen_sequence(str(source), "backward")
    assert "no host function 'backward'" in no.value.message and "ktc kernels" in no.value.hint
