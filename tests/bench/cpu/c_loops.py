"""The plain C loops of ``loops/``, compiled by the installed gcc and called with numpy arrays.

One file a folder of the library, one function a kernel, with the kernel's parameters in order: arrays as pointers to
their first element, scalars in their C type. They are written once and not tuned: what a programmer would have typed
instead of the kernel, with OpenMP over the outermost loop.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ktc.ir.kernel import Kernel
from ktc.ir.types import Ptr

LOOPS = Path(__file__).parent / "loops"
FLAGS = ("-O3", "-march=native", "-fopenmp", "-fPIC")
BUILDS = {"C": (), "C -ffast-math": ("-ffast-math",)}
"""Contender: what is added to the flags."""

LINKING = ("-shared", "-fopenmp")
"""Without ``-ffast-math``: linked with it, a library takes subnormal numbers for zeros in all of the process."""

CTYPES = {"f32": ctypes.c_float, "f64": ctypes.c_double, "i32": ctypes.c_int32, "i64": ctypes.c_int64,
          "u32": ctypes.c_uint32, "u64": ctypes.c_uint64}  # fmt: skip


def compiler() -> str | None:
    """The C compiler's path; None: there is none."""
    return shutil.which("gcc")


def compiler_name() -> str:
    """What gcc calls itself, in one line."""
    gcc = compiler()
    return (
        subprocess.run([gcc, "--version"], capture_output=True, text=True).stdout.splitlines()[0] if gcc else "no gcc"
    )


def loops(kernel: Kernel, folder: str) -> dict[str, Callable[[Mapping[str, Any]], None]]:
    """The loops of the kernel in ``folder`` (``dense/saxpy``), one entry a build; they take arguments by name.

    Raises:
        RuntimeError: gcc is missing or refuses the file.
    """
    family, name = folder.split("/")
    return {build: _caller(kernel, _library(family, extra), name) for build, extra in BUILDS.items()}


def _caller(kernel: Kernel, library: ctypes.CDLL, name: str) -> Callable[[Mapping[str, Any]], None]:
    function = getattr(library, name)
    function.restype = None
    names = [p.sym.name for p in kernel.params]
    function.argtypes = [
        ctypes.c_void_p if isinstance(p.sym.type, Ptr) else CTYPES[p.sym.type.name]  # type: ignore[union-attr]
        for p in kernel.params
    ]

    def call(args: Mapping[str, Any]) -> None:
        given = (args[n] for n in names)
        function(*(a.ctypes.data if isinstance(a, np.ndarray) and a.ndim else a for a in given))

    return call


def _library(family: str, extra: tuple[str, ...]) -> ctypes.CDLL:
    """The compiled file, kept in the folder for temporary files under a hash of its text, flags and compiler."""
    gcc, source = compiler(), LOOPS / f"{family}.c"
    if gcc is None:
        raise RuntimeError("there is no gcc to compile the C loops")
    flags = (*FLAGS, *extra)
    key = hashlib.sha256("\0".join((source.read_text(), *flags, *LINKING, compiler_name())).encode()).hexdigest()[:16]
    built = Path(tempfile.gettempdir()) / f"ktc-c-loops-{key}.so"
    if not built.is_file():
        with tempfile.TemporaryDirectory() as folder:
            compiled, made = Path(folder) / "loops.o", Path(folder) / "loops.so"
            for step in ((*flags, "-c", source, "-o", compiled), (*LINKING, compiled, "-o", made, "-lm")):
                run = subprocess.run([gcc, *map(str, step)], capture_output=True, text=True)
                if run.returncode:
                    raise RuntimeError(run.stderr)
            shutil.move(made, built)
    return ctypes.CDLL(str(built))
