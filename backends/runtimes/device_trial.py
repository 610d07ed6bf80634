"""A device counts when it has built and run a kernel: a driver that is there may still fail at every build.

PoCL's wheel lists a device on processors that its compiler does not know, a CUDA driver may be older than the compiler,
and code for a feature that a virtual machine hides kills its process. So :func:`prove` has a kernel of one line built
and run, in a process of its own, before a runtime is handed out. What a device has proved is kept on disk by its name,
driver and versions: later starts read one small file.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from ktc.backends.base import CompileFailure, DeviceInfo, Emitted, Runtime
from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import add, cast, cdiv, lt, mul
from ktc.ir.kernel import Kernel, Launch, Param
from ktc.ir.nodes import Binary, Const, Decl, HwIndex, If, Load, Store, Var, fresh, i32
from ktc.ir.support.ended_children import end
from ktc.ir.types import F32, I32, Ptr

from .early_trials import trial_of
from .file_cache import cache_root, key_of, write_atomic

SECONDS = 120
"""The first build of a driver may load and fill a great deal, on a machine that is slow or busy."""


def _kernel() -> Kernel:
    """``y[i] = x[i] * 3 + 1`` in blocks of 64 threads, made of nodes: the trial waits for no parser."""
    y, x = fresh("y", Ptr(F32, restrict=True)), fresh("x", Ptr(F32, const=True, restrict=True))
    n, i = fresh("n", I32), fresh("i", I32)
    first = mul(HwIndex("block", "x"), HwIndex("block_dim", "x"))
    value = Binary("+", Binary("*", Load(x, (Var(i),)), Const(3.0, F32)), Const(1.0, F32))
    body = (
        Decl(i, cast(add(first, HwIndex("thread", "x")), I32), const=True),
        If(lt(Var(i), Var(n)), (Store(y, (Var(i),), value),)),
    )
    launch = Launch((cdiv(Var(n), i32(64)), i32(1), i32(1)), (i32(64), i32(1), i32(1)))
    return Kernel("trial", tuple(map(Param, (y, x, n))), launch, body)


_CUDA = """__global__ void trial(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * 3.0f + 1.0f;
}
"""
TEXTS = {
    "cuda": _CUDA,
    "hip": f"#include <hip/hip_runtime.h>\n{_CUDA}",
    "opencl": """__kernel void trial(__global float* y, __global const float* x, int n) {
  int i = get_global_id(0);
  if (i < n) y[i] = x[i] * 3.0f + 1.0f;
}
""",
    "numba": """import numpy as np
from numba import njit, prange


@njit(parallel=True)
def trial_all(y, x, n):
    for i in prange(n):
        y[i] = x[i] * np.float32(3.0) + np.float32(1.0)


def trial(y, x, n):
    trial_all(y, x, int(n))
""",
}
"""The kernel in each language, written out: what builds it is tried here, not what prints."""

_REMARKS = {"numba": "#"}
_PACKAGES = {"cuda": ("cupy-cuda13x", "cupy-cuda12x", "cupy"), "opencl": ("pyopencl", "pocl-binary-distribution"),
             "numba": ("numba", "llvmlite")}  # fmt: skip
_SWITCHES = ("POCL_", "OCL_", "NUMBA_", "CUDA_", "HIP_", "ROCM_", "LD_LIBRARY_PATH")


def trial_code(target: str, unseen: bool = False) -> Emitted:
    """The kernel for ``target``; ``unseen``: a text that no cache has the result of."""
    remark = f"{_REMARKS.get(target, '//')} {time.time_ns()} {os.getpid()}\n" if unseen else ""
    return Emitted(TEXTS[target] + remark, "trial", target, _kernel())


def run_trial(runtime: Runtime, unseen: bool = True) -> str:
    """Build and run the kernel on ``runtime``, in this process; ``unseen``: from a text that no cache knows. Why it did
    not work; '' if it did."""
    x = np.arange(1000, dtype=np.float32)
    try:
        exe = runtime.compile(trial_code(runtime.device.backend, unseen))
        args = {"y": runtime.to_device(np.zeros_like(x)), "x": runtime.to_device(x), "n": x.size}
        exe.launch(args)
        runtime.synchronize()
        got = runtime.to_host(args["y"], x)
    except CompileFailure as e:
        return f"it builds no kernel: {gist(e.log)}"
    except Exception as e:  # a broken driver may raise anything
        return f"it runs no kernel: {gist(getattr(e, 'message', '') or f'{type(e).__name__}: {e}')}"
    return "" if np.array_equal(got, x * 3 + 1) else "it computes wrong results"


_failed: dict[Path, str] = {}
"""Why devices did not work when this process tried them: whoever asks again is told the same."""


def prove(runtime: Runtime, name: str, *, here: bool = False) -> None:
    """Make sure that the device, which :func:`.open_device` opens by ``name``, has built and run a kernel; ``here``: in
    this process, which may die of it.

    Raises:
        KtcError: E-DEVICE-UNUSABLE (exit code 3), with the reason.
    """
    kept = _proof(runtime.device)
    if kept.is_file():
        return
    why = _failed.get(kept)
    if why is None and not here:
        why = _in_a_child(name)
    if why is None:
        why = run_trial(runtime)
    if why:
        _failed[kept] = why
        raise KtcError(
            "E-DEVICE-UNUSABLE", f"{runtime.device.name} is listed, but {why}", exit_code=3,
            hint="`ktc doctor` shows every device and what is wrong with it",
        )  # fmt: skip
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(kept, json.dumps({"device": runtime.device.name}).encode())
    except OSError:
        pass  # tried again next time


SAYS_MOST = ("error:", "unknown target", "invalid build option", "cannot find", "no such file", "error", "failed")
"""Words of the line to show, the most telling first."""


def gist(log: str) -> str:
    """The line of a log that says most: the first with the most telling of :data:`SAYS_MOST`, else the last."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    named = [line for word in SAYS_MOST for line in lines if word in line.lower()]
    return (named or lines[-1:] or ["it does not say why"])[0][:300]


def _in_a_child(name: str) -> str | None:
    """:func:`run_trial` in a process of its own, which may die of it; None where no process can be started."""
    try:
        process = trial_of(name)
    except OSError:
        return None
    try:
        said, log = process.communicate(timeout=SECONDS)
        return str(json.loads(said.splitlines()[-1])["why"])
    except subprocess.TimeoutExpired:
        end(process)
        return f"a kernel of one line did not end within {SECONDS} s: the driver hangs, or the machine is very busy"
    except (ValueError, KeyError, IndexError):
        return f"the process that ran a kernel of one line ended with code {process.returncode}: {gist(log)}"


def _proof(device: DeviceInfo) -> Path:
    """Where it is kept that this device works."""
    return cache_root() / "devices" / f"{fingerprint(device)[:32]}.json"


def fingerprint(device: DeviceInfo) -> str:
    """A key of this device with these packages, on this processor, under these switches."""
    versions = [f"{p}={v}" for p in _PACKAGES.get(device.backend, ()) if (v := _version(p))]
    switches = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith(_SWITCHES)]
    described = json.dumps(dataclasses.asdict(dataclasses.replace(device, global_bytes=0, extra=dict(device.extra))))
    return key_of(described, sys.prefix, _processor(), *versions, *switches)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _processor() -> str:
    """What the processor can do: a home folder is shared by machines, and a virtual one may hide features."""
    try:
        rows = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return ""
    return next((row for row in rows if row.startswith(("flags", "Features"))), "")
