"""Launcher texts before the compilers that their users have: host and device code of one text, as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

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
#define CL_SUCCESS 0
#define CL_INVALID_VALUE -30
#define CL_QUEUE_DEVICE 0x1091
#define CL_DEVICE_LOCAL_MEM_SIZE 0x1023
"""
"""What the launchers use of the standard header (OpenCL 1.2), where that is not installed."""

COMPILERS: Mapping[str, tuple[str, ...]] = {"cuda": ("nvcc",), "hip": ("hipcc",), "opencl": ("gcc", "clang", "cc")}
SUFFIX = {"cuda": "cu", "hip": "hip", "opencl": "c"}
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "cuda": ("-std=c++17", "-arch=sm_90a", "-c"),
    "hip": ("-std=c++17", "--offload-arch=gfx90a", "-Werror=unused-result", "-c"),
    "opencl": ("-std=c11", "-fsyntax-only", "-Werror=implicit-function-declaration", "-I."),
}


def compiler_of(target: str) -> str | None:
    """The compiler of launchers in ``target``'s language that is installed."""
    return next((found for name in COMPILERS[target] if (found := shutil.which(name))), None)


def refusal(target: str, text: str, folder: Path, *more: str) -> str:
    """What the compiler says against ``text``; '' if it takes it."""
    compiler = compiler_of(target)
    assert compiler is not None
    if target == "opencl":
        (folder / "CL").mkdir(exist_ok=True)
        (folder / "CL" / "cl.h").write_text(CL_H)
    source = folder / f"program.{SUFFIX[target]}"
    source.write_text(text)
    out = () if target == "opencl" else ("-o", "program.o")
    env = os.environ | {"HIP_PLATFORM": "amd"}
    command = [compiler, *OPTIONS[target], *more, source.name, *out]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=280)
    return "" if done.returncode == 0 else done.stderr or done.stdout


def refusals(target: str, texts: Mapping[str, str], folder: Path, *more: str) -> dict[str, str]:
    """What the compiler says against each text that it refuses. C++ texts that ask for the same headers are compiled as
    one, each in a namespace, and one by one where that is refused: a compiler takes longer to read its headers than
    most of these texts."""
    groups = defaultdict[object, dict[str, str]](dict)
    for name, text in texts.items():
        groups[name if target == "opencl" else frozenset(_headers(text))][name] = text
    out: dict[str, str] = {}
    for group in groups.values():
        if len(group) == 1 or refusal(target, _joined(list(group.values())), folder, *more):
            out |= {name: why for name, text in group.items() if (why := refusal(target, text, folder, *more))}
    return out


def _headers(text: str) -> list[str]:
    return [x for x in text.splitlines() if x.startswith("#include")]


def _joined(texts: Sequence[str]) -> str:
    parts = [f"namespace text{k} {{\n{text}\n}}\n" for k, text in enumerate(texts)]
    return "\n".join([*_headers(texts[0]), *parts])
