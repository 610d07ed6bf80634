"""What a host function launches one after the other: which memory is whose, and what no sequence goes across."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktc.ir.frontend.host.sequences.host_sequences import HostSequence, Read
from ktc.ir.frontend.host.sequences.host_values import constant_of
from ktc.ir.frontend.sequences_of_files import sequences_in

KERNELS = """\
#include <cuda_runtime.h>
#include <cstdio>
#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { printf("bad\\n"); exit(1); } } while (0)
__global__ void scale(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i];
}
__global__ void shift(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + 1.0f;
}
"""

ALLOCATED = """\
  float *x, *y, *z;
  cudaMalloc(&x, n * 4); cudaMalloc((void**)&y, n * sizeof(float)); CHECK(cudaMalloc(&z, n * sizeof(float)));
"""

ONE, TWO = "scale<<<(n + 255) / 256, 256>>>(x, y, 2.0f, n);", "shift<<<(n + 255) / 256, 256>>>(y, z, n);"


def read(tmp_path: Path, body: str, before: str = "", params: str = "int n, float* h", name: str = "go") -> Read:
    """What the function ``go`` of that body launches."""
    file = tmp_path / "host.cu"
    file.write_text(f"{KERNELS}{before}\nvoid go({params}) {{\n{body}\n}}\n")
    found, _ = sequences_in(str(file), name)
    assert len(found) == 1
    return found[0]


def only(found: Read) -> HostSequence:
    assert len(found.sequences) == 1, found.reasons
    return found.sequences[0]


def own(s: HostSequence) -> dict[str, bool]:
    return {p.memory.name: p.memory.own for p in s.memories}


def later(s: HostSequence) -> dict[str, bool]:
    return {p.memory.name: p.read_later for p in s.memories}


def why(found: Read) -> str:
    assert not found.sequences
    return found.reasons[0][0]


def test_what_only_passes_values_on_is_known(tmp_path: Path) -> None:
    copied = "cudaMemcpy(x, h, n * 4, cudaMemcpyHostToDevice);"
    back = "cudaMemcpy(h, z, n * 4, cudaMemcpyDeviceToHost); cudaFree(y);"
    s = only(read(tmp_path, f"{ALLOCATED}{copied}\n{ONE}\nCHECK(cudaGetLastError());\n{TWO}\n{back}"))
    assert [x.kernel for x in s.steps] == ["scale", "shift"] and (s.first, s.last) == (1, 2)
    assert own(s) == {"x": True, "y": True, "z": True}
    assert later(s) == {"x": False, "y": False, "z": True}
    assert {p.memory.name: p.filled for p in s.memories} == {"x": True, "y": False, "z": False}


def test_parameters_are_memory_that_others_know(tmp_path: Path) -> None:
    s = only(read(tmp_path, f"{ONE}{TWO}", params="float* x, float* y, float* z, int n"))
    assert own(s) == dict.fromkeys("xyz", False) and later(s) == dict.fromkeys("xyz", True)


@pytest.mark.parametrize(
    ("between", "said"),
    [
        ("cudaMemcpy(h, y, n * 4, cudaMemcpyDeviceToHost);", "cudaMemcpy reads 'y' between the launches"),
        ("cudaMemset(y, 0, n * 4);", "cudaMemset writes 'y' between the launches"),
        ("library(y);", "library writes 'y' between the launches"),
        ("if (n == 3) return;", "a branch after which the launches that follow may not happen"),
        ("if (n > 3) { cudaMemset(y, 0, 4); }", "cudaMemset writes 'y' between the launches"),
        ("check(y, n);", "check writes 'y' between the launches"),
        (
            "if (cudaGetLastError() == cudaSuccess) cudaMemcpy(h, y, 4, cudaMemcpyDeviceToHost);",
            "cudaMemcpy reads 'y' between the launches",
        ),
        (
            "for (int i = 0; i < n; ++i) { if (h[i] > 3) return; }",
            "a branch after which the launches that follow may not happen",
        ),
    ],
)
def test_what_touches_the_memory_of_the_launches_keeps_them_apart(tmp_path: Path, between: str, said: str) -> None:
    found = read(tmp_path, f"{ALLOCATED}{ONE}\n  {between}\n{TWO}", 'void check(float* x, int n) { printf("%p", x); }')
    assert why(found) == said
    place = found.reasons[0][1]
    assert place is not None and place.line == 17


@pytest.mark.parametrize(
    "between",
    [
        "CHECK(cudaDeviceSynchronize());", "cudaMemset(z, 0, n * 4);", "cudaError_t e = cudaGetLastError(); "
        'if (e != cudaSuccess) { printf("%s", cudaGetErrorString(e)); return; }', "library(n);", "{ int m = n * 2; }",
        "for (int i = 0; i < n; ++i) h[i] = 0;", "float* w; cudaMalloc(&w, n);", "cudaFree(x);",
        "for (int i = 0; i < n; ++i) { if (h[i] > 3) break; }",
    ],
)  # fmt: skip
def test_what_does_not_is_passed_over(tmp_path: Path, between: str) -> None:
    assert len(only(read(tmp_path, f"{ALLOCATED}{ONE}\n{between}\n{TWO}")).steps) == 2


def test_memory_that_was_set_to_zero_is_told(tmp_path: Path) -> None:
    s = only(read(tmp_path, f"{ALLOCATED}{ONE}\ncudaMemsetAsync(z, 0, n * sizeof(float));\n{TWO}"))
    assert {p.memory.name: p.zeroed for p in s.memories} == {"x": False, "y": False, "z": True}
    for less in ("if (n) cudaMemset(z, 0, n * sizeof(float));", "cudaMemset(z, 0, 4);", "cudaMemset(z, 1, n * 4);"):
        s = only(read(tmp_path, f"{ALLOCATED}{ONE}\n{less}\n{TWO}"))
        assert not any(p.zeroed for p in s.memories)


def test_code_that_is_not_seen_may_know_a_parameter(tmp_path: Path) -> None:
    params = "float* x, float* y, float* z, int n"
    assert "'library' is not seen here" in why(read(tmp_path, f"{ONE} library(n); {TWO}", params=params))


@pytest.mark.parametrize(
    "leak", ["keep.p = y;", "float* all[] = {y};", "library(y);", "held = y;", "float* w = n ? y : x;", "use(w = y);"]
)
def test_an_address_that_may_be_elsewhere_is_nobodys_own(tmp_path: Path, leak: str) -> None:
    s = only(read(tmp_path, f"{ALLOCATED}{leak}\n{ONE}{TWO}", "struct { float* p; } keep; float* held;"))
    assert not own(s)["y"] and later(s)["y"]


def test_the_address_of_a_pointer_is_refused(tmp_path: Path) -> None:
    assert "'y' is taken" in why(read(tmp_path, f"{ALLOCATED}float** p = &y;\n{ONE}{TWO}"))


def test_a_round_of_a_loop_is_a_sequence_whose_results_the_next_round_may_read(tmp_path: Path) -> None:
    loop = f"for (int t = 0; t < n; ++t) {{ {ONE} {TWO} std::swap(x, z); }}"
    s = only(read(tmp_path, ALLOCATED + loop))
    assert later(s) == dict.fromkeys(later(s), True)
    kinds = {p.memory.name: p.memory.kind for p in s.memories}
    assert kinds["y"] == "allocated" and sorted(kinds.values()) == ["allocated", "unknown", "unknown"]


def test_a_few_rounds_are_launches_in_a_row(tmp_path: Path) -> None:
    rounds = "for (int t = 0; t < 3; ++t) shift<<<1, 256>>>(y, z + t * n, n);"
    s = only(read(tmp_path, f"{ALLOCATED}{ONE}{rounds}"))
    assert [x.kernel for x in s.steps] == ["scale", "shift", "shift", "shift"]
    passed = [str(x.passed["y"].offset) for x in s.steps]  # type: ignore[union-attr]
    assert len(set(passed[1:])) == 3


@pytest.mark.parametrize(
    ("second", "said"),
    [(f"if (n > 3) {TWO}", "shift is launched in another branch or loop than scale"),
     (TWO.replace("256>>>", "256, 0, other>>>"), "shift is launched in another stream than scale")],
)  # fmt: skip
def test_branches_and_streams_keep_apart(tmp_path: Path, second: str, said: str) -> None:
    assert why(read(tmp_path, f"{ALLOCATED}cudaStream_t other;{ONE}{second}")) == said


def test_functions_of_the_file_are_followed(tmp_path: Path) -> None:
    before = "void second(const float* from, float* to, int m) { shift<<<(m + 255) / 256, 256>>>(from, to, m); }"
    s = only(read(tmp_path, f"{ALLOCATED}{ONE} second(y, z, n);", before))
    given = s.steps[1].passed
    assert [given[p].memory.name for p in "xy"] == ["y", "z"]  # type: ignore[union-attr]
    assert given["n"] == s.steps[0].passed["n"]


def test_a_number_that_changes_is_another_number(tmp_path: Path) -> None:
    s = only(read(tmp_path, f"{ALLOCATED}{ONE} n = library(n); {TWO}"))
    assert s.steps[0].passed["n"] != s.steps[1].passed["n"]
    s = only(read(tmp_path, f"{ALLOCATED}{ONE} n = n / 2; {TWO}"))
    assert str(s.steps[0].passed["n"]) in str(s.steps[1].passed["n"])


SLICED = """\
template <int SLICES> __global__ void part(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[blockIdx.y * n + i] = x[i] / SLICES;
}
"""


def test_what_the_compiler_has_to_know_is_no_size(tmp_path: Path) -> None:
    """A constant that is a template argument of a launch is that number in the launch's grid, too."""
    launch = "part<SLICES><<<dim3((n + 255) / 256, SLICES), 256>>>(x, y, n);"
    s = only(read(tmp_path, f"{ALLOCATED} constexpr int SLICES = 8; {launch} {TWO}", SLICED))
    assert s.steps[0].template == {"SLICES": "8"} and constant_of(s.steps[0].grid[1]) == 8
    assert list(s.roots) == ["n"]
    s = only(read(tmp_path, f"{ALLOCATED} const int m = 4096; {ONE.replace('n', 'm')} {TWO}"))
    assert "m" in list(s.roots), "an example of a size is a size"
