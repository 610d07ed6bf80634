"""Exports of sequences: one callable that makes their launches in order, with memory for what they pass on."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ktc
from ktc.exporting.building import build
from ktc.exporting.shipped.array_kernels import ArrayKernels
from ktc.exporting.shipped.dispatch import Launch
from tests.ktc.exporting.test_packages import python

Run = Callable[..., subprocess.CompletedProcess[str]]

SOURCE = """\
#include <cuda_runtime.h>
__global__ void scale(const float* __restrict__ x, float* __restrict__ y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
__global__ void shift(const float* __restrict__ y, float* __restrict__ z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = y[i] + 1.0f;
}
"""

SHEET = """\
[sequence]
name = "shares"
source = "kernels.cu"
[[args]]
name = "x"
dtype = "f32"
shape = ["n"]
role = "in"
noalias = true
[[args]]
name = "y"
dtype = "f32"
shape = ["n"]
role = "temp"
[[args]]
name = "z"
dtype = "f32"
shape = ["n"]
role = "out"
noalias = true
[[launch]]
kernel = "scale"
grid = ["cdiv(n, 64)"]
block = ["64"]
[[launch]]
kernel = "shift"
grid = ["cdiv(n, 32)"]
block = ["32"]
[[scenario]]
name = "small"
sizes = { n = 100 }
[[scenario]]
name = "odd"
sizes = { n = 37 }
"""


@pytest.fixture(scope="module")
def sheet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sequence")
    (folder / "kernels.cu").write_text(SOURCE)
    (folder / "shares.toml").write_text(SHEET)
    return folder / "shares.toml"


class Recorded(ArrayKernels):
    """Launches are noted down, with the memory that they share."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.made: list[tuple[str, tuple[int, ...], int]] = []

    def is_array(self, x: object) -> bool:
        return isinstance(x, np.ndarray)

    def span(self, x: np.ndarray) -> tuple[int, int]:
        return x.ctypes.data, x.ctypes.data + x.nbytes

    def limits(self, arrays: object) -> tuple[int, str]:
        return 48 << 10, "sm_90"

    def memory(self, name: str, dtype: str, size: int, arrays: object) -> np.ndarray:
        return np.empty(size, "float32")

    def launch(self, launch: Launch, arrays: dict[str, np.ndarray]) -> None:  # type: ignore[override]
        assert {n for n, t in launch.kernel.arguments if t.startswith("*")} <= arrays.keys()
        self.made.append((launch.kernel.file.stem, launch.grid, arrays["y"].size))
        self.shared = arrays["y"] if len(self.made) == 1 else self.shared
        assert arrays["y"] is self.shared


class Fused(Recorded):
    """Launches of which one alone may have nothing to pass on."""

    def launch(self, launch: Launch, arrays: dict[str, np.ndarray]) -> None:  # type: ignore[override]
        self.made.append((launch.kernel.file.stem, launch.grid, 0))


def test_launches_are_made_in_order_in_memory_that_they_share(sheet: Path, tmp_path: Path) -> None:
    built = build([], [ktc.load(str(sheet))], "cuda")
    (tmp_path / "kernel.json").write_text(json.dumps(built.artefact.to_json()))
    kernels = Recorded(tmp_path)
    z = np.empty(100, np.float32)
    kernels.run({"x": np.zeros(100, np.float32), "z": z}, {})
    assert kernels.made == [("original", (2, 1, 1), 100), ("original_2", (4, 1, 1), 100)]
    assert [p.name for p in built.artefact.parameters] == ["x", "z", "n"]


def test_what_any_launch_relies_on_is_decided_before_the_first(sheet: Path, tmp_path: Path) -> None:
    """The second launch needs n % 4 == 0: where it does not hold, the first is the original's too."""
    script = "raise | distribute{loop=i_1 map=[vec 4, thread.x 32, block.x]}"
    program = dataclasses.replace(ktc.load(str(sheet)), preset=(script, {}))
    built = build([], [program], "cuda")
    variant = built.artefact.instances[0].variants[0]
    assert len(variant.launches) == 2 and any("% 4" in r for r in variant.requires)
    (tmp_path / "kernel.json").write_text(json.dumps(built.artefact.to_json()))
    for n, files in ((100, ["tuned0", "tuned0_2"]), (37, ["original", "original_2"])):
        kernels = Recorded(tmp_path)
        kernels.run({"x": np.zeros(n, np.float32), "z": np.zeros(n, np.float32)}, {})
        assert [file for file, _, _ in kernels.made] == files


def test_a_fusion_on_a_guess_is_not_taken_where_memory_overlaps(tmp_path: Path) -> None:
    """Nobody promises that ``z`` is not in ``x``; ``y`` is the sequence's own."""
    (tmp_path / "kernels.cu").write_text(SOURCE.replace(" __restrict__", ""))
    guessed = SHEET.replace("noalias = true\n", 'noalias = true\nguessed = ["noalias"]\n')
    (tmp_path / "shares.toml").write_text(guessed)
    program = dataclasses.replace(ktc.load(str(tmp_path / "shares.toml")), preset=("raise | fuse-launches", {}))
    built = build([], [program], "cuda")
    (tmp_path / "kernel.json").write_text(json.dumps(built.artefact.to_json()))
    memory = np.zeros(300, np.float32)
    for first, files in ((200, ["tuned0"]), (100, ["tuned0"]), (99, ["original", "original_2"]), (0, ["original"] * 2)):
        kernels = Fused(tmp_path)
        kernels.run({"x": memory[:100], "z": memory[first : first + 100]}, {})
        assert [file.removesuffix("_2") for file, _, _ in kernels.made] == [f.removesuffix("_2") for f in files], first


def test_the_package_runs_without_ktc(sheet: Path, tmp_path: Path, ktc_run: Run) -> None:
    pytest.importorskip("pyopencl")
    assert ktc_run("export", str(sheet), "--to", "pyopencl", "-p", "raise", "-o", "out").returncode == 0
    done = python("selftest.py", cwd=tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 comparisons with the original kernel, 0 failed" in done.stdout


def test_a_library_in_cuda_has_memory_for_what_is_passed_on(sheet: Path, tmp_path: Path, ktc_run: Run) -> None:
    done = ktc_run("export", str(sheet), "--to", "cmake", "-p", "raise", "-o", "out", "--no-check")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out/shares.cu").read_text()
    head = "cudaError_t shares(const float* x, float* z, int n, cudaStream_t stream);"
    assert head in (tmp_path / "out/shares.h").read_text()
    assert text.count("passed_memory(stream, -1,") == 2 and text.count("if (captured)") == 2


def test_launches_in_their_source_stay(sheet: Path, ktc_run: Run) -> None:
    done = ktc_run("export", str(sheet), "--to", "source", "-p", "raise", "-o", "out")
    assert done.returncode == 1 and "E-EXPORT-SEQUENCE" in done.stderr and "--to cmake" in done.stderr
