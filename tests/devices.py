"""The devices and compilers of this machine that work: a test that needs one asks here, and is skipped without it.

A device works when it has built and run a kernel (:mod:`ktc.backends.runtimes.device_trial`). To see the suite on a
machine whose OpenCL builds nothing: ``POCL_EXTRA_BUILD_FLAGS=--no-such-flag``; with none: ``OCL_ICD_VENDORS=/nowhere``.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest

from ktc.backends import check_compile
from ktc.backends.base import Runtime
from ktc.backends.runtimes import OPENERS, open_runtime
from ktc.backends.runtimes.device_trial import trial_code
from ktc.backends.runtimes.opencl_runtime import devices, import_pyopencl
from ktc.ir.diagnostics import KtcError


@functools.cache
def opened(name: str) -> Runtime | str:
    """The runtime ``name``, or why there is none that works."""
    try:
        return open_runtime(name)
    except KtcError as e:
        return f"{e.message}; {e.hint}" if e.hint else e.message


def kinds() -> list[str]:
    """The kinds of device that work here."""
    return [kind for kind in OPENERS if not isinstance(opened(kind), str)]


def working(name: str) -> Runtime:
    """The runtime ``name``; without a device that works the test is skipped."""
    found = opened(name)
    if isinstance(found, str):
        pytest.skip(f"no working device '{name}': {found}")
    return found


@functools.cache
def lacks(target: str) -> str:
    """Why there is no compiler of ``target`` that compiles a kernel of one line; '' if there is one."""
    try:
        check_compile(trial_code(target))
    except KtcError as e:
        return e.message
    return ""


def compiler(target: str) -> None:
    """Without a compiler of ``target`` that works the test is skipped: nvcc may lack its host compiler."""
    if why := lacks(target):
        pytest.skip(f"no working compiler for {target}: {why}")


@functools.cache
def _opencl(extension: str, images: bool) -> Any:
    numbered = enumerate(devices(import_pyopencl()))
    for i in [i for i, d in numbered if extension in d.extensions and (d.image_support or not images)]:
        if not isinstance(found := opened(f"opencl:{i}"), str):
            return found
    return None


def opencl(extension: str = "", *, images: bool = False) -> tuple[Any, Any, Any]:
    """pyopencl, a context and a queue of the first OpenCL device that works (and has ``extension``, or images)."""
    working("opencl")
    found = _opencl(extension, images)
    if found is None:
        pytest.skip(f"no working OpenCL device with {extension or 'images'}")
    return found.cl, found.context, found.queue
