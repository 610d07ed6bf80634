"""A drafted stencil staged in shared memory: its launcher runs the original where the buffers overlap."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import ktc
from ktc import emission
from ktc.backends.launchers.launch_geometry import geometry
from ktc.ir.fact_origins import facts_of
from ktc.ir.text import print_expr
from ktc.scaffold import workload_text
from tests.backends.launchers.fake_cupy import buffer, launcher
from tests.backends.launchers.host_compilers import CL_H

BLUR = """\
__global__ void blur(float* out, const float* in, int h, int w) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  int i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i > 0 && i < h - 1 && j > 0 && j < w - 1)
    out[i * w + j] = 0.25f * (in[(i - 1) * w + j] + in[(i + 1) * w + j] + in[i * w + j - 1] + in[i * w + j + 1]);
}
void run(float* out, const float* in, int h, int w) {
  blur<<<dim3((w + 31) / 32, (h + 7) / 8), dim3(32, 8)>>>(out, in, h, w);
}
"""

STAGED = "raise | tile{loops=i,j sizes=16,16} | stage-shared{array=in loop=j_tile}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stencil with the workload that is drafted for it."""
    made = tmp_path_factory.mktemp("blur")
    (made / "kernel.cu").write_text(BLUR)
    program = ktc.load(str(made / "kernel.cu"))
    assert program.source is not None
    target = made / "workload.toml"
    target.write_text(workload_text(program.kernel, program.source, target)[0])
    return made


def printed(folder: Path, target: str, kind: str = "launcher", script: str = STAGED) -> str:
    return emission.emit(ktc.load(str(folder)).apply(script).ok, target, kind, {}).text


def test_a_drafted_stencil_is_staged_and_says_on_what_ground(folder: Path) -> None:
    program = ktc.load(str(folder))
    origins = {(f.sym.name, f.kind): f.origin for f in facts_of(program.kernel)}
    assert origins["out", "noalias"] == "guessed"
    found = emission.resting(program.apply(STAGED).ok, "cuda", {})
    assert "out overlaps no other buffer" in found.conditions and "in_s" in found.emitted.text
    assert emission.resting(program.apply("raise").ok, "cuda", {}).conditions == ()


def test_the_bytes_are_those_that_the_code_can_touch(folder: Path) -> None:
    """The draft's own shapes are guesses: they are not asked."""
    g = geometry(emission.resting(ktc.load(str(folder)).apply(STAGED).ok, "cuda", {}).emitted.kernel)
    (pair,) = g.apart
    assert {pair.one.buffer.name, pair.other.buffer.name} == {"out", "in"}
    assert any(print_expr(f).startswith(("h >= 0", "h as i64 >= 0")) for f in g.facts)


def test_the_original_that_runs_on_overlapping_buffers_knows_no_guess(folder: Path) -> None:
    text = printed(folder, "cuda")
    assert "blur_original(float* out, const float* in, " in text and "__restrict__" not in text
    assert "reinterpret_cast<intptr_t>(out)" in text and "#include <cstdint>" in text


def test_a_subscript_that_is_not_known_is_no_ground(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "kernel.cu").write_text(BLUR.replace("in[(i - 1) * w + j]", "in[(int)in[0] * w + j]"))
    (tmp_path / "workload.toml").write_text((folder / "workload.toml").read_text())
    program = ktc.load(str(tmp_path))
    assert not program.kernel.param("out").noalias
    assert program.apply(STAGED).refused is not None


def test_the_program_compiles(folder: Path, tmp_path: Path, needs: Callable[[str], str]) -> None:
    path = tmp_path / "program.cu"
    path.write_text(printed(folder, "cuda"))
    command = [needs("nvcc"), "-std=c++17", "-arch=sm_90", "-c", str(path), "-o", str(tmp_path / "program.o")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


H, W = 40, 100
SIZE = 4 * H * W

PLACES = [
    (0, SIZE, True),
    (SIZE, 0, True),
    (0, 0, False),
    (0, 4 * W, False),
    (4 * W, 0, False),
    (0, SIZE - 8 * W, False),
    (0, SIZE - 4 * W, True),  # the last row of ``out`` is never written
    (SIZE - 4, 0, True),  # nor its first one: ``in`` ends where that begins
]
"""Where ``out`` and ``in`` begin, in bytes, and whether no byte that one launch touches belongs to both."""


@pytest.mark.parametrize(("out", "in_", "apart"), PLACES)
def test_the_places_are_judged_by_what_is_touched(out: int, in_: int, apart: bool) -> None:
    written = {out + 4 * (i * W + j) for i in range(1, H - 1) for j in range(1, W - 1)}
    inside = range(1, H - 1), range(1, W - 1)
    near = ((-1, 0), (1, 0), (0, -1), (0, 1))
    read = {in_ + 4 * ((i + a) * W + j + b) for i in inside[0] for j in inside[1] for a, b in near}
    assert apart == (max(read) < min(written) or max(written) < min(read))


@pytest.mark.parametrize(("out", "in_", "apart"), PLACES)
def test_the_python_launcher_chooses(
    folder: Path, monkeypatch: pytest.MonkeyPatch, out: int, in_: int, apart: bool
) -> None:
    launch, launched = launcher(monkeypatch, printed(folder, "cuda", "launcher-cupy"))
    launch(buffer((1 << 20) + out), buffer((1 << 20) + in_), H, W)
    assert launched == ["blur" if apart else "blur_original"]


RUNTIME = """
#include <stdio.h>
#include <stdlib.h>
struct _m { size_t offset; cl_mem whole; };
struct _k { const char* name; };
cl_int clSetKernelArg(cl_kernel k, cl_uint n, size_t size, const void* value) { return 0; }
cl_int clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel k, cl_uint d, const size_t* o, const size_t* g,
                              const size_t* l, cl_uint n, const cl_event* w, cl_event* e) { puts(k->name); return 0; }
cl_int clGetMemObjectInfo(cl_mem m, cl_uint what, size_t size, void* value, size_t* n) {
  if (what == CL_MEM_OFFSET) *(size_t*)value = m->offset; else *(cl_mem*)value = m->whole;
  return 0;
}
int main(int argc, char** argv) {
  struct _m whole = {0, NULL}, other = {0, NULL};
  struct _m out = {(size_t)atol(argv[1]), &whole}, in = {(size_t)atol(argv[2]), atoi(argv[3]) ? &other : &whole};
  struct _k tuned = {"blur"}, original = {"blur_original"};
  return launch_blur(NULL, &tuned, &original, &out, &in, HEIGHT, WIDTH);
}
"""
"""A runtime of one buffer, of which ``out`` and ``in`` are parts; or of two, if a third number is not 0."""


def test_the_opencl_launcher_chooses(folder: Path, tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "CL").mkdir()
    (tmp_path / "CL" / "cl.h").write_text(CL_H)
    sizes = RUNTIME.replace("HEIGHT", str(H)).replace("WIDTH", str(W))
    (tmp_path / "program.c").write_text(printed(folder, "opencl") + sizes)
    command = [compiler, "-std=c11", "-I", str(tmp_path), str(tmp_path / "program.c"), "-o", str(tmp_path / "program")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for out, in_, apart in PLACES:
        for several in (0, 1):
            ran = subprocess.run(
                [str(tmp_path / "program"), str(out), str(in_), str(several)], capture_output=True, text=True
            )
            assert ran.stdout.split() == ["blur" if apart or several else "blur_original"], (out, in_, several)
