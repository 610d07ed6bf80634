"""``check_compile``: does the language's real compiler accept the text, and what does it say about resources.

CUDA: ``nvcc -cubin`` with the ptxas report. HIP: hipcc for gfx90a, or clang 18+ without any ROCm installation through
the declarations in ``include/hip_standalone.h``. OpenCL: a build on every OpenCL device that this machine has.
numba: that it is Python.

A compiler that refuses a kernel is asked for one of a line as well: if it refuses that, the environment is at fault (a
compiler without its headers or host compiler, a driver that does not know the processor), not the kernel.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from ktc.ir.diagnostics import KtcError

from .base import CompileFailure, Emitted, accelerated
from .runtimes.device_trial import TEXTS, gist, trial_code

TIMEOUT_S = 300


@dataclass(frozen=True)
class CompileReport:
    """Compiled fine. ``resources``: registers, shared, stack, spill_stores, spill_loads in bytes (as far as reported).

    ``artifact`` is the machine code or assembly (PTX and cubin for CUDA, by request), ``log`` the compiler's output.
    """

    tool: str
    arch: str
    resources: Mapping[str, int] = field(default_factory=dict)
    log: str = ""
    artifact: bytes = b""


def check_compile(emitted: Emitted, arch: str | None = None, output: str = "cubin") -> CompileReport:
    """Compile ``emitted`` with the real compiler; ``output`` is ``cubin`` or ``ptx`` (CUDA).

    Raises:
        CompileFailure: the compiler refused the text.
        KtcError: E-TOOL-MISSING (exit code 3), the compiler is not installed; E-TOOL-BROKEN (exit code 3), it compiles
            nothing here.
    """
    check = _CHECKS.get(emitted.target)
    if check is None:
        raise KtcError("E-BACKEND-TARGET", f"nothing compiles target '{emitted.target}'", exit_code=2)
    try:
        return check(emitted, arch, output)
    except CompileFailure:
        if broken := _broken(emitted.target, arch, output):
            raise KtcError(
                "E-TOOL-BROKEN", f"the {emitted.target} compiler compiles no kernel of one line here: {broken}",
                hint="the kernel is not at fault; `ktc doctor` shows what is installed", exit_code=3,
            ) from None  # fmt: skip
        raise


@functools.cache
def _broken(target: str, arch: str | None, output: str) -> str:
    """Why the compiler of ``target`` cannot compile anything; '' if it can."""
    try:
        _CHECKS[target](trial_code(target), arch, output)
    except CompileFailure as e:
        return gist(e.log)
    return ""


def _tool(*names: str, hint: str) -> str:
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    raise KtcError("E-TOOL-MISSING", f"{names[0]} is not installed", hint=hint, exit_code=3)


def _run(command: list[str], cwd: str, env: Mapping[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT_S, env={**os.environ, **(env or {})}
        )
    except subprocess.TimeoutExpired:
        raise CompileFailure(f"{command[0]} took more than {TIMEOUT_S} s") from None
    log = done.stdout + done.stderr
    if done.returncode != 0:
        raise CompileFailure(log)
    return log


def _cuda(emitted: Emitted, arch: str | None, output: str) -> CompileReport:
    nvcc = _tool("nvcc", hint="install the CUDA toolkit, or run on a machine with CuPy (NVRTC)")
    arch = accelerated(arch or "sm_90", emitted.text)
    with tempfile.TemporaryDirectory(prefix="ktc-") as folder:
        source, target = Path(folder, "kernel.cu"), Path(folder, f"kernel.{output}")
        source.write_text(emitted.text, encoding="utf-8")
        command = [
            nvcc,
            f"-arch={arch}",
            f"-{output}",
            "-Xptxas",
            "-v",
            *emitted.options,
            str(source),
            "-o",
            str(target),
        ]
        log = _run(command, folder)
        return CompileReport("nvcc", arch, ptxas_resources(log), log, target.read_bytes())


PTXAS = {
    "registers": r"Used (\d+) registers",
    "shared": r"(\d+) bytes smem",
    "stack": r"(\d+) bytes stack frame",
    "spill_stores": r"(\d+) bytes spill stores",
    "spill_loads": r"(\d+) bytes spill loads",
    "constant": r"(\d+) bytes cmem\[0\]",
    "barriers": r"used (\d+) barriers",
}


def ptxas_resources(log: str) -> dict[str, int]:
    """Numbers of ``ptxas -v``; the largest, where the text has several kernels."""
    found = {name: [int(x) for x in re.findall(pattern, log)] for name, pattern in PTXAS.items()}
    out = {name: max(values) for name, values in found.items() if values}
    return {"shared": 0, **out} if "registers" in out else out


def _hip(emitted: Emitted, arch: str | None, output: str) -> CompileReport:
    arch = arch or "gfx90a"
    with tempfile.TemporaryDirectory(prefix="ktc-") as folder:
        source, target = Path(folder, "kernel.hip"), Path(folder, "kernel.out")
        source.write_text(emitted.text, encoding="utf-8")
        if arch == "gfx90a" and (hipcc := shutil.which("hipcc")):
            command = [
                hipcc,
                "--genco",
                f"--offload-arch={arch}",
                "-O3",
                *emitted.options,
                str(source),
                "-o",
                str(target),
            ]
            log = _run(command, folder, {"HIP_PLATFORM": "amd"})
            return CompileReport("hipcc", arch, {}, log, target.read_bytes())
        clang = _tool(
            "clang++-19", "clang++-18", "clang++", hint="install clang 18 or later, or ROCm's hipcc for gfx90a"
        )
        with as_file(files("ktc.backends.hip") / "include" / "hip_standalone.h") as header:
            lines = [line for line in emitted.text.splitlines() if not line.startswith("#include <hip/")]
            source.write_text("\n".join(lines) + "\n", encoding="utf-8")
            command = [
                clang, "-x", "hip", "-nogpulib", "-nogpuinc", "--cuda-device-only", f"--offload-arch={arch}", "-O3",
                "-std=c++17", *emitted.options, "-include", str(header), "-S", str(source), "-o", str(target),
            ]  # fmt: skip
            log = _run(command, folder)
        assembly = target.read_bytes()
        return CompileReport("clang", arch, amdgcn_resources(assembly.decode("utf-8", "replace")), log, assembly)


AMDGCN = {
    "registers": r"\.vgpr_count:\s+(\d+)",
    "scalar_registers": r"\.sgpr_count:\s+(\d+)",
    "shared": r"\.group_segment_fixed_size:\s+(\d+)",
    "spill_stores": r"\.vgpr_spill_count:\s+(\d+)",
}


def amdgcn_resources(assembly: str) -> dict[str, int]:
    """Numbers of the code object's metadata."""
    found = {name: [int(x) for x in re.findall(pattern, assembly)] for name, pattern in AMDGCN.items()}
    return {name: max(values) for name, values in found.items() if values}


def _opencl(emitted: Emitted, arch: str | None, output: str) -> CompileReport:
    try:
        from ktc.backends.runtimes.opencl_runtime import import_pyopencl

        cl = import_pyopencl()
        devices = [d for p in cl.get_platforms() for d in p.get_devices()]
    except Exception as e:  # no module, no loader, no platform: one answer
        raise KtcError(
            "E-TOOL-MISSING",
            f"no OpenCL: {e}",
            hint='pip install "ktc[opencl]" brings a CPU implementation (PoCL)',
            exit_code=3,
        ) from None
    chosen = [
        d for d in devices if arch is None or arch.lower() in f"{d.name} {d.platform.name} {d.platform.version}".lower()
    ]
    if not chosen:
        raise KtcError("E-TOOL-MISSING", f"no OpenCL device matches '{arch or 'any'}'", exit_code=3)
    if "-cl-std=CL3.0" in emitted.options:
        chosen = [d for d in chosen if not d.opencl_c_version.startswith("OpenCL C 1.") and "subgroup" in d.extensions]
        if not chosen:
            hint = "pip install intel-opencl-rt intel-cmplr-lib-rt brings a CPU device that has"
            raise KtcError(
                "E-TOOL-MISSING", "no OpenCL device here has OpenCL C 3 and sub-groups", hint=hint, exit_code=3
            )
    log, took, lacks, unfit = "", list[str](), None, dict[str, str]()
    for device in chosen:
        who = f"{device.platform.name}, {device.name}"
        try:
            with warnings.catch_warnings():  # "non-empty compiler output": the log is kept
                warnings.simplefilter("ignore")
                program = cl.Program(cl.Context([device]), emitted.text).build(options=list(emitted.options))
        except cl.Error as e:
            failure = CompileFailure(f"{who}:\n{e}")
            if _library_gap(str(e)):
                lacks = failure
            elif why := _builds_nothing(cl, device):
                unfit[who] = why
            else:
                raise failure from None
            continue
        took.append(device.name)
        log += program.get_build_info(device, cl.program_build_info.LOG) or ""
    if lacks is not None and not took:
        raise lacks
    if unfit and not took:
        raise KtcError(
            "E-TOOL-BROKEN", "no OpenCL device here builds a kernel of one line",
            hint="; ".join(f"{who}: {why}" for who, why in unfit.items()), exit_code=3,
        )  # fmt: skip
    return CompileReport("opencl", ", ".join(took), {}, log)


def _builds_nothing(cl: Any, device: Any) -> str:
    """Why ``device`` builds no kernel at all; '' if it does."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cl.Program(cl.Context([device]), TEXTS["opencl"]).build(cache_dir=False)
    except cl.Error as e:
        return gist(str(e))
    return ""


def _library_gap(log: str) -> bool:
    """Whether the text compiled, but the device's library of built-in functions has a hole (PoCL: buffer images)."""
    return "Cannot find symbol" in log and "error:" not in log


def _numba(emitted: Emitted, arch: str | None, output: str) -> CompileReport:
    """As Python only: numba compiles when the argument types are known, at the first launch."""
    try:
        compile(emitted.text, f"<{emitted.entry}>", "exec")
    except SyntaxError as e:
        raise CompileFailure(f"Python: {e}") from None
    return CompileReport(
        "Python", f"{sys.version_info[0]}.{sys.version_info[1]}; numba compiles it at its first launch"
    )


_CHECKS = {"cuda": _cuda, "hip": _hip, "opencl": _opencl, "numba": _numba}
