"""What this machine offers ktc: devices, compilers, packages, services. Every check is one function in one table."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktc.backends.runtimes import DeviceProbe

SECONDS = 15

NVIDIA, AMD, CPU = "NVIDIA GPU through CuPy", "AMD GPU", "CPU through numba"

AMD_PLATFORMS = ("AMD Accelerated Parallel Processing", "rusticl")
"""OpenCL platforms that reach AMD's GPUs: ROCm's, and Mesa's."""


@dataclass(frozen=True)
class Finding:
    """``status`` is ok | missing | broken; ``detail`` what was found; ``remedy`` what to do about it."""

    area: str
    name: str
    status: str
    detail: str
    remedy: str = ""


Check = Callable[[], tuple[str, str, str] | None]
"""Looks for one thing: (status, detail, remedy) of its finding, None where it does not concern this machine. May raise.
"""


def examine() -> list[Finding]:
    """Run every check; a check that fails itself is a finding, not an error."""
    found = []
    for area, name, check in CHECKS:
        try:
            said = check()
        except Exception as e:  # a broken driver may raise anything
            said = "broken", f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}", ""
        if said is not None:
            found.append(Finding(area, name, *said))
    return found


def next_steps(found: Sequence[Finding]) -> list[tuple[str, str]]:
    """Commands to begin with on this machine, each with what it does, by the devices that work."""
    ok = {f.name for f in found if f.status == "ok"}
    steps = [("ktc optimize silu_and_mul --device cuda", "measure on the NVIDIA GPU")] if NVIDIA in ok else []
    if AMD in ok:
        steps += [
            ("ktc optimize silu_and_mul --device opencl", "measure on the AMD GPU, through its OpenCL"),
            ("ktc export ktc-out/silu_and_mul --to hip", "the kernels that won, as HIP with a launcher for hipcc"),
        ]
    if not ok & {NVIDIA, AMD} and CPU in ok:
        steps += [
            ("ktc optimize silu_and_mul", "measure on this CPU (docs/cpu.md)"),
            ("ktc port silu_and_mul --to hip", "nothing to measure: another language, and what changes in it"),
        ]
    return steps


def chosen_device() -> Finding:
    """The device that commands use when ``--device`` is not given, as the runtimes pick it."""
    try:
        from ktc.backends.runtimes import open_runtime

        device = open_runtime().device
    except Exception as e:
        return Finding(
            "device", "default", "missing", str(e).splitlines()[0], "pip install 'ktc[opencl]' for a CPU OpenCL device"
        )
    picked = device.extra.get("picked", "first choice")
    instead = "" if picked == "first choice" else f"; not taken: {picked}"
    how = f"; {device.extra['contest']}" if "contest" in device.extra else ""
    what = f"{device.backend}: {device.name} (profile {device.profile})"
    return Finding("device", "default", "ok", f"{what}{how}{instead}")


def _python() -> tuple[str, str, str]:
    return "ok", f"{platform.python_version()} ({sys.executable})", ""


def _device(kind: str) -> Check:
    """Every device of a kind that builds and runs a kernel, and what is wrong with the others."""

    def check() -> tuple[str, str, str]:
        from ktc.backends.runtimes import probe

        found = probe(kind)
        status = next((s for s in ("ok", "broken") if any(f.status == s for f in found)), "missing")
        remedy = found[0].how_to_get if status == "missing" else ""  # what is broken is there: its row says why
        return status, "; ".join(_said(f) for f in found), remedy

    return check


def _amd() -> tuple[str, str, str] | None:
    """AMD GPUs are measured through OpenCL: whether theirs is there."""
    from ktc.backends.runtimes import probe
    from ktc.backends.runtimes.amd_gpus import amd_gpus, rocm_version

    gpus = amd_gpus()
    if not gpus:
        return None
    version = rocm_version()
    here = f"{', '.join(dict.fromkeys(gpus))}, {f'ROCm {version}' if version else 'no ROCm in /opt/rocm'}"
    theirs = [p for p in probe("opencl") if p.ok and any(word in p.why for word in AMD_PLATFORMS)]
    if theirs:
        return "ok", f"{here}; measured through OpenCL ({'; '.join(map(_said, theirs))})", ""
    remedy = (
        "ROCm's OpenCL driver (rocm-opencl-runtime of AMD's packages; your user in the groups render and video), "
        "then pip install 'ktc[opencl]'"
    )
    return "missing", f"{here}; no OpenCL device of it", remedy


def _said(found: DeviceProbe) -> str:
    """One device in a line: with the number that ``--device opencl:N`` takes, where there are several."""
    _, _, number = found.name.partition(":")
    return f"{number}: {found.why}" if number else found.why


def _tool(binaries: tuple[str, ...], version_args: tuple[str, ...], pattern: str, remedy: str) -> Check:
    def check() -> tuple[str, str, str]:
        places = os.environ.get("PATH", "") + os.pathsep + "/usr/local/cuda/bin" + os.pathsep + "/opt/rocm/bin"
        path = next((p for b in binaries if (p := shutil.which(b, path=places))), None)
        if path is None:
            return "missing", f"{' or '.join(binaries)} not found", remedy
        done = subprocess.run([path, *version_args], capture_output=True, text=True, timeout=SECONDS)
        m = re.search(pattern, done.stdout + done.stderr)
        return "ok", f"{m.group(0) if m else 'version unknown'} ({path})", ""

    return check


def _cupti() -> tuple[str, str, str] | None:
    """What times kernels for `ktc profile`; of no matter where there is no NVIDIA driver."""
    from ktc.profiling.profile_run import cupti_libraries

    found = cupti_libraries(sys.executable)
    if found:
        return "ok", str(found[0]), ""
    if not os.path.exists("/proc/driver/nvidia"):
        return None
    return "missing", "CUPTI not found: `ktc profile` takes times by events", "pip install nvidia-cuda-cupti"


def _sandbox() -> tuple[str, str, str]:
    from ktc.search.workers.sandbox import abi, describe

    return ("ok" if abi() else "missing"), describe(), "" if abi() else "a Linux kernel of 5.13 or later"


def _llm() -> tuple[str, str, str]:
    if importlib.util.find_spec("openai") is None:
        return "missing", "openai is not installed: the embedded planner is used", "pip install 'ktc[agent]'"
    from ktc.agent.llm.config import LlmConfig

    config = LlmConfig.from_env()
    if config is None:
        return (
            "missing",
            "no endpoint: the embedded planner is used",
            "set KTC_LLM_BASE_URL (a local server) or OPENAI_API_KEY",
        )
    return "ok", f"{config.model} at {config.base_url or 'api.openai.com'}", ""


CHECKS: tuple[tuple[str, str, Check], ...] = (
    ("system", "python", _python),
    ("system", "sandbox of workers", _sandbox),
    ("device", NVIDIA, _device("cuda")),
    ("device", AMD, _amd),
    ("device", "OpenCL", _device("opencl")),
    ("device", CPU, _device("numba")),
    (
        "compiler",
        "nvcc",
        _tool(("nvcc",), ("--version",), r"release [\d.]+", "the CUDA toolkit (only for --emit ptx|cubin and --check)"),
    ),
    (
        "compiler",
        "hipcc",
        _tool(("hipcc",), ("--version",), r"HIP version: \S+", "apt install hipcc (only to check HIP output)"),
    ),
    (
        "compiler",
        "clang",
        _tool(
            ("clang-19", "clang++-19", "clang"),
            ("--version",),
            r"clang version \S+",
            "apt install clang-19 (only to check HIP output for new GPUs)",
        ),
    ),
    (
        "compiler",
        "g++",
        _tool(("g++", "c++", "clang++"), ("--version",), r"\d+\.\d+\.\d+", "apt install g++ (profiles, captures)"),
    ),
    ("service", "CUPTI", _cupti),
    ("service", "LLM planner", _llm),
)
