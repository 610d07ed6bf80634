"""One text with the original, the tuned kernel and the launcher: it compiles as it is, whatever the passes assumed."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import ktc
from ktc import emission
from tests.paths import KERNELS

OWN_BINS = (
    "raise | tile{loops=i sizes=65536} | distribute{loop=i map=[thread.x 256, seq]}"
    " | privatize-atomics{array=count bins=256}"
)

SCRIPTS = {
    "whole vectors": ("silu_and_mul", "raise | distribute{loop=idx map=[vec 8, thread.x 128, seq]}"),
    "narrowed indices": ("fused_add_rmsnorm", "raise | narrow-index"),
    "a constant size": ("silu_and_mul", "raise | specialize{d=4096}"),
    "working memory": ("dot", "raise | split-reduction{loop=tid map=[thread.x 256, block.x 4, seq]}"),
    "dynamic shared memory": ("rmsnorm", "raise | row-cache{loop=i where=shared}"),
    "several sweeps": ("jacobi2d", "raise | temporal-block{steps=3 tile=16,32}"),
    "atomics of a block's own": (
        "histogram",
        OWN_BINS,
    ),
    "exact tiles": ("sgemm", "raise | tile{loops=k sizes=16 tail=exact}"),
}

CL_H = """\
#include <stddef.h>
#include <stdint.h>
typedef struct _q* cl_command_queue; typedef struct _k* cl_kernel; typedef struct _m* cl_mem;
typedef struct _e* cl_event;
typedef int8_t cl_char; typedef uint8_t cl_uchar; typedef int16_t cl_short; typedef uint16_t cl_ushort;
typedef int32_t cl_int; typedef uint32_t cl_uint; typedef int64_t cl_long; typedef uint64_t cl_ulong;
typedef uint16_t cl_half; typedef float cl_float; typedef double cl_double;
cl_int clSetKernelArg(cl_kernel, cl_uint, size_t, const void*);
cl_int clEnqueueNDRangeKernel(cl_command_queue, cl_kernel, cl_uint, const size_t*, const size_t*, const size_t*,
                              cl_uint, const cl_event*, cl_event*);
typedef struct _d* cl_device_id;
cl_int clGetCommandQueueInfo(cl_command_queue, cl_uint, size_t, void*, size_t*);
cl_int clGetDeviceInfo(cl_device_id, cl_uint, size_t, void*, size_t*);
cl_int clGetMemObjectInfo(cl_mem, cl_uint, size_t, void*, size_t*);
#define CL_MEM_ASSOCIATED_MEMOBJECT 0x1107
#define CL_MEM_OFFSET 0x1108
#define CL_INVALID_VALUE -30
#define CL_QUEUE_DEVICE 0x1091
#define CL_DEVICE_LOCAL_MEM_SIZE 0x1023
"""
"""What the launchers use of the standard header (OpenCL 1.2), where that is not installed."""


def program(name: str, script: str) -> ktc.Program:
    return ktc.load(name).apply(script).ok


def made(case: str, target: str, kind: str = "launcher") -> str:
    name, script = SCRIPTS[case]
    return emission.emit(program(name, script), target, kind, {}).text


@pytest.mark.slow
@pytest.mark.parametrize("case", SCRIPTS)
def test_cuda_compiles_as_it_is(case: str, tmp_path: Path, needs: Callable[[str], str]) -> None:
    nvcc = needs("nvcc")
    path = tmp_path / "program.cu"
    path.write_text(made(case, "cuda"))
    command = [nvcc, "-std=c++17", "-arch=sm_90", "-c", str(path), "-o", str(tmp_path / "program.o")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("case", SCRIPTS)
def test_opencl_host_code_compiles_as_it_is(case: str, tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "CL").mkdir()
    (tmp_path / "CL" / "cl.h").write_text(CL_H)
    path = tmp_path / "program.c"
    try:
        path.write_text(made(case, "opencl"))
    except ktc.KtcError as e:
        assert e.code == "E-BACKEND-FENCE", e
        pytest.skip(f"plain OpenCL cannot express it: {e.message}")
    command = [
        compiler,
        "-std=c11",
        "-fsyntax-only",
        "-Werror=implicit-function-declaration",
        "-I",
        str(tmp_path),
        str(path),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("case", SCRIPTS)
def test_the_python_callable_is_python(case: str) -> None:
    tree = ast.parse(made(case, "cuda", "launcher-cupy"))
    assert any(isinstance(n, ast.FunctionDef) and n.name == "launch" for n in tree.body)


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_what_both_kernels_need_stands_there_once(target: str) -> None:
    text = made("whole vectors", target)
    lines = [x for x in text.splitlines() if x.startswith("#include")]
    assert len(lines) == len(set(lines))
    assert len(re.findall(r"^__global__", text, re.M)) == 2
    assert text.index("silu_and_mul_kernel_original(") < text.index("constexpr int") if "constexpr" in text else True


def test_constants_of_the_tuned_kernel_come_behind_the_original() -> None:
    """A macro of OpenCL is called ``T``, as something of the original may be."""
    script = "raise | distribute{loop=idx map=[vec 8, thread.x $T, seq]}"
    text = emission.emit(program("silu_and_mul", script), "opencl", "launcher", {}).text
    source = "".join(json.loads(x) for x in re.findall(r'^ {4}(".*?");?$', text, re.M))
    assert source.index("_original(") < source.index("#define T ") < source.rindex("__kernel")


def test_a_kernel_that_assumes_nothing_needs_no_original() -> None:
    text = emission.emit(program("saxpy", "raise"), "cuda", "launcher", {}).text
    assert "_original" not in text and "launch_saxpy" in text


@pytest.mark.slow
def test_scripts_of_experts_compile_as_one_text(tmp_path: Path, needs: Callable[[str], str]) -> None:
    """A sample: the shortest of each folder of kernels."""
    nvcc = needs("nvcc")
    scripts = [p for p in KERNELS.glob("*/*/expert.ktp") if "by=producer" not in p.read_text()]
    shortest = {p.parent.parent: p for p in sorted(scripts, key=lambda p: -p.stat().st_size)}
    assert len(shortest) >= 3
    for path in shortest.values():
        text = emission.emit(program(path.parent.name, path.read_text()), "cuda", "launcher", {}).text
        source = tmp_path / f"{path.parent.name}.cu"
        source.write_text(text)
        command = [nvcc, "-std=c++17", "-arch=sm_90a", "-c", str(source), "-o", str(tmp_path / "program.o")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, f"{path}: {done.stderr}"
