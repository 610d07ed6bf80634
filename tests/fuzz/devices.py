"""The same cases on real compilers and devices: printed, compiled, launched, and compared with the interpreter.

A backend is named as on the command line: ``numba``, ``opencl:Portable``, ``cuda``, ``hip`` (its text through the
header for NVIDIA devices), ``opencl:NVIDIA``. Runtimes are opened in the process that uses them.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ktc.backends import emit
from ktc.backends.base import CompileFailure
from ktc.backends.runtimes import open_runtime
from ktc.driver.printing import printed
from ktc.ir.diagnostics import KtcError
from ktc.ir.interp import RunResult
from ktc.ir.kernel import Kernel

TEXT = {"numba": "numba", "cuda": "cuda", "hip": "hip", "opencl:Portable": "opencl", "opencl:NVIDIA": "opencl-nvidia"}
"""Which text each backend gets."""

CORES = "/cores"
"""What follows an OpenCL backend's name for the text of a processor's cores: the parallel form's loops, not threads."""

Reference = Callable[[Kernel, Mapping[str, Any], str, bool], RunResult]

LOOSE = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-10}
"""Where a result is not exact: how far it may be off, of the largest value beside it (sums take any order)."""


class Lost(BaseException):
    """A kernel broke the device's context: nothing more can be run in this process."""


@functools.cache
def runtime(backend: str) -> Any:
    return open_runtime(backend)


def check_on(
    backend: str, before: Kernel, lowered: Kernel, args: Mapping[str, Any], counts: Counter, reference: Reference
) -> str:
    """'' if the printed kernel leaves on the device what ``before`` means, else what differs.

    ``lowered``: in SPMD form; in parallel form for a processor's cores.
    ``reference(before, args, domain, sanitize)`` runs it in the interpreter.

    Raises:
        Lost: the launch broke the device.
    """
    try:
        code = printed(lowered, "opencl-cpu") if backend.endswith(CORES) else emit(lowered, TEXT[backend])
    except KtcError as e:
        if not e.code.startswith(("E-BACKEND", "E-NUMBA-UNSUPPORTED", "E-LOWER")):
            raise
        counts[f"{backend}: not printed"] += 1
        return ""
    device = runtime(backend.removesuffix(CORES))
    try:
        exe = device.compile(code)
    except CompileFailure as e:
        return f"{backend} does not compile: {e.log[-1500:]}\n{code.text}"
    data = {k: device.to_device(v) if isinstance(v, np.ndarray) else v for k, v in args.items()}
    try:
        exe.launch(data)
        device.synchronize()
        got = {k: device.to_host(data[k], v) for k, v in args.items() if isinstance(v, np.ndarray)}
    except KtcError as e:
        if e.code == "E-DEVICE-FAULT":
            raise Lost(f"{backend}: {e.message}\n{code.text}") from None
        if e.code == "E-LAUNCH-FAILED":
            counts[f"{backend}: not launched"] += 1
            return ""
        raise
    counts[f"{backend}: run"] += 1
    why = _difference(before, args, got, counts, backend, reference)
    return f"{backend}: {why}\n{code.text}" if why else ""


def _difference(
    before: Kernel, args: Mapping[str, Any], got: dict, counts: Counter, backend: str, reference: Reference
) -> str:
    want = reference(before, args, "float", True).outputs
    real = reference(before, args, "float64", True).outputs
    exact = True
    for name, there in got.items():
        expected = want.get(name, args[name])
        truth = np.asarray(real.get(name, args[name]))
        if expected.dtype.kind in "iub":
            wrong = expected != there
        else:
            e, t, g = (np.asarray(x, np.float64) for x in (expected, truth, there))
            with np.errstate(all="ignore"):
                certain = truth.astype(expected.dtype).astype(np.float64) == e
                exact &= bool(certain.all())
                room = LOOSE[expected.dtype.name] * max(1.0, float(np.abs(t[np.isfinite(t)]).max(initial=0.0)))
                near = (np.abs(g - e) <= room) | (np.isnan(g) & np.isnan(e)) | (g == e)
                wrong = ~np.where(certain, (g == e) | (np.isnan(g) & np.isnan(e)), near)
        if wrong.any():
            at = int(np.argmax(wrong))
            return (
                f"{name}[{at}] is {there.reshape(-1)[at]}, expected {expected.reshape(-1)[at]} "
                f"({int(wrong.sum())} of {wrong.size} differ)"
            )
    counts[f"{backend}: exact"] += exact
    return ""
