"""A kernel raised for ``rows == batch * length``, as its source launches it: other callers get the original."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ktc
from ktc import emission
from tests.backends.launchers.fake_cupy import buffer, launcher
from tests.backends.launchers.host_compilers import CL_H

SCALE = """\
__global__ void scale(float* y, const float* x, int rows) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < rows) y[r] = 2.0f * x[r];
}
void run(float* y, const float* x, int batch, int length) {
  scale<<<(batch * length + 63) / 64, 64>>>(y, x, batch * length);
}
"""

CALLS = [((12, 3, 4), "scale"), ((11, 3, 4), "scale_original"), ((200, 1, 64), "scale_original"), ((0, 0, 7), "scale")]
"""``rows``, ``batch`` and ``length``, and what is launched: of 200 rows the source computes the first 64."""


def printed(target: str, kind: str = "launcher") -> str:
    return emission.emit(ktc.loads(SCALE, name="scale").apply("raise").ok, target, kind, {}).text


def test_it_is_said() -> None:
    found = emission.resting(ktc.loads(SCALE, name="scale").apply("raise").ok, "cuda", {})
    assert found.emitted.text.count("r < rows") == 1
    assert [(a.origin) for a in found.emitted.kernel.assumptions] == ["observed"]


def test_the_cuda_program_compiles(tmp_path: Path, needs: Callable[[str], str]) -> None:
    path = tmp_path / "program.cu"
    path.write_text(printed("cuda"))
    command = [needs("nvcc"), "-std=c++17", "-arch=sm_90", "-c", str(path), "-o", str(tmp_path / "program.o")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_python_launcher_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    launch, launched = launcher(monkeypatch, printed("cuda", "launcher-cupy"))
    array = buffer(1 << 20)
    for (rows, batch, length), name in CALLS:
        launched.clear()
        launch(array, array, rows, batch, length)
        assert launched == ([name] if batch else []), (rows, batch, length)  # CuPy would launch one block of none


RUNTIME = """
#include <stdio.h>
#include <stdlib.h>
struct _k { const char* name; };
cl_int clSetKernelArg(cl_kernel k, cl_uint n, size_t size, const void* value) { return 0; }
cl_int clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel k, cl_uint d, const size_t* o, const size_t* g,
                              const size_t* l, cl_uint n, const cl_event* w, cl_event* e) { puts(k->name); return 0; }
int main(int argc, char** argv) {
  struct _k tuned = {"scale"}, original = {"scale_original"};
  return launch_scale(NULL, &tuned, &original, NULL, NULL, atoi(argv[1]), atoi(argv[2]), atoi(argv[3]));
}
"""


def test_the_opencl_launcher_chooses(tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "CL").mkdir()
    (tmp_path / "CL" / "cl.h").write_text(CL_H)
    (tmp_path / "program.c").write_text(printed("opencl") + RUNTIME)
    command = [compiler, "-std=c11", "-I", str(tmp_path), str(tmp_path / "program.c"), "-o", str(tmp_path / "program")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for sizes, name in CALLS:
        ran = subprocess.run([str(tmp_path / "program"), *map(str, sizes)], capture_output=True, text=True)
        assert ran.stdout.split() == ([name] if sizes[1] else []), sizes  # OpenCL 1.2 refuses a range of no items


def test_python_for_the_cpu_refuses_what_it_is_not_made_for(tmp_path: Path) -> None:
    numba = pytest.importorskip("numba")
    assert numba
    path = tmp_path / "scale_numba.py"
    path.write_text(printed("numba", "source").replace("cache=True", "cache=False"))
    module: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), module)
    x = np.arange(1, 301, dtype=np.float32)
    y = np.zeros_like(x)
    module["scale"](y, x, 12, 3, 4)
    assert (y == np.where(np.arange(300) < 12, 2 * x, 0)).all()
    with pytest.raises(ValueError, match=r"rows == batch \* length does not hold"):
        module["scale"](y, x, 200, 1, 64)
