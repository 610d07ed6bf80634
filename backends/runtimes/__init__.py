"""Runtimes: compile, launch and time printed kernels on a device. ``open_runtime`` picks one, and says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ktc.backends.base import Runtime
from ktc.ir.diagnostics import KtcError


@dataclass(frozen=True)
class DeviceProbe:
    """What ``ktc doctor`` says about one kind of device."""

    name: str  # cuda | opencl | numba
    ok: bool
    why: str  # the device's name, or what is missing
    how_to_get: str = ""


def _open_cuda(rest: str) -> Runtime:
    from .cuda_runtime import CudaRuntime

    if rest and not rest.isdigit():
        raise KtcError("E-DEVICE-NAME", f"'cuda:{rest}' is not a device: give a number", exit_code=2)
    return CudaRuntime(int(rest or 0))


def _open_opencl(rest: str) -> Runtime:
    from .opencl_runtime import ClRuntime

    return ClRuntime(rest)


def _open_numba(rest: str) -> Runtime:
    from .cpu_runtime import CpuRuntime

    return CpuRuntime()


OPENERS: dict[str, tuple[Callable[[str], Runtime], str]] = {
    "cuda": (_open_cuda, "an NVIDIA driver and `pip install 'ktc[cuda]'`"),
    "opencl": (_open_opencl, "a vendor driver, or `pip install 'ktc[opencl]'` for a CPU device"),
    "numba": (_open_numba, "`pip install numba`"),
}
"""How each kind is opened, and how to get it; in the order in which ``auto`` tries them."""

ALIASES = {"cpu": "numba", "hip": "cuda", "gpu": "cuda", "": "auto"}


def open_runtime(name: str | None = None) -> Runtime:
    """The runtime ``name``: ``cuda``, ``cuda:1``, ``opencl``, ``opencl:PoCL``, ``numba``; None or ``auto``: the first
    that works.

    The device's ``extra['picked']`` says why the ones before it were not taken.

    Raises:
        KtcError: E-DEVICE-NAME (usage), or the reason why the device asked for is not there (environment).
    """
    kind, _, rest = (name or "auto").partition(":")
    kind = ALIASES.get(kind.lower(), kind.lower())
    if kind != "auto":
        if kind not in OPENERS:
            raise KtcError(
                "E-DEVICE-NAME", f"no device kind '{kind}'", hint=f"one of: auto, {', '.join(OPENERS)}", exit_code=2
            )
        return OPENERS[kind][0](rest)
    reasons: list[str] = []
    for candidate, (opener, _) in OPENERS.items():
        try:
            runtime = opener("")
        except KtcError as e:
            reasons.append(f"{candidate}: {e.message}")
            continue
        runtime.device = _with_reason(runtime, reasons)
        return runtime
    raise KtcError("E-DEVICE-NONE", "no device to run on", hint="; ".join(reasons), exit_code=3)


def _with_reason(runtime: Runtime, reasons: list[str]):
    import dataclasses

    why = "; ".join(reasons) or "first choice"
    return dataclasses.replace(runtime.device, extra={**runtime.device.extra, "picked": why})


def probe(kind: str) -> DeviceProbe:
    """Try one kind of device; never raises."""
    opener, how = OPENERS[kind]
    try:
        device = opener("").device
    except KtcError as e:
        return DeviceProbe(kind, False, e.message, e.hint or how)
    except Exception as e:  # a broken driver must not take the doctor down
        return DeviceProbe(kind, False, f"{type(e).__name__}: {e}", how)
    return DeviceProbe(kind, True, f"{device.name} ({device.profile})")


__all__ = ["OPENERS", "DeviceProbe", "open_runtime", "probe"]
