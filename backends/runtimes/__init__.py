"""Runtimes: compile, launch and time printed kernels on a device. ``open_runtime`` picks one, and says why.

A device counts when it has built and run a kernel (:mod:`.device_trial`); one that is merely listed does not.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ktc.backends.base import DeviceInfo, Runtime
from ktc.ir.diagnostics import KtcError


@dataclass(frozen=True)
class DeviceProbe:
    """What ``ktc doctor`` says about one device. ``status``: ok; missing: there is none; broken: it runs no kernel."""

    name: str  # cuda | opencl:0 | opencl:1 | numba
    status: str
    why: str  # the device's name, or what is missing
    how_to_get: str = ""

    @property
    def ok(self) -> bool:
        return self.status == "ok"


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
"""How each kind is opened, and how to get it; in the order in which ``auto`` tries them.
Of those that are the processor itself it takes the fastest."""

FIRST = "first choice"
"""Why a device was taken that was tried before all others."""

PACKAGES = {"cuda": "cupy", "opencl": "pyopencl", "numba": "numba"}
"""The Python package that each kind is reached through."""

ALIASES = {"cpu": "numba", "hip": "cuda", "gpu": "cuda", "": "auto"}


def open_runtime(name: str | None = None, *, expendable: bool = False) -> Runtime:
    """The runtime ``name``: ``cuda``, ``cuda:1``, ``opencl``, ``opencl:PoCL``, ``numba``; None or ``auto``: the first
    GPU that works, else the processor; ``opencl``: the first OpenCL device that works.

    Where ``auto`` finds no GPU and several ways to run kernels on the processor, the faster one in a small test
    (:mod:`.cpu_contest`) is taken, and ``extra['contest']`` is a line that says so. The device's ``extra['picked']``
    says why the ones before it were not taken, ``extra['opened']`` is the name that opens this one and no other.

    ``expendable``: whoever started this process copes with its death. Then numba, where no other device is left, is
    tried here rather than in a process that loads it a second time.

    Raises:
        KtcError: E-DEVICE-NAME (usage), or the reason why the device asked for is not there (environment).
    """
    from .cpu_contest import contest
    from .device_trial import prove

    kind, rest = _named(name)
    reasons: list[str] = []
    first: KtcError | None = None
    cores: dict[str, Runtime] = {}
    for candidate in _candidates(kind, rest):
        try:
            runtime = open_device(candidate)
            prove(runtime, candidate, here=expendable and not cores and runtime.device.backend == "numba")
        except KtcError as e:
            if kind != "auto" and e.code != "E-DEVICE-UNUSABLE":
                raise
            first = first or e
            reasons.append(f"{candidate}: {e.message}")
            continue
        if kind == "auto" and runtime.device.is_cpu:
            cores[candidate] = runtime
            continue
        return _picked(runtime, candidate, reasons)
    if len(cores) > 1:
        won = contest({name: runtime.device for name, runtime in cores.items()})
        return _picked(cores[won.order[0].name], won.order[0].name, reasons, won.line)
    for name, runtime in cores.items():
        return _picked(runtime, name, reasons)
    if kind != "auto" and len(reasons) == 1 and first is not None:
        raise first
    code, what = ("E-DEVICE-NONE", "no device to run on") if kind == "auto" else (
        "E-DEVICE-UNUSABLE", f"no device of kind '{kind}' builds and runs a kernel")  # fmt: skip
    raise KtcError(code, what, hint="; ".join(reasons), exit_code=3)


def expected_device(name: str | None) -> DeviceInfo | None:
    """The device that :func:`open_runtime` comes to if all goes well, where that is known at once: one that the CUDA
    driver describes. None: nobody knows before it is open.

    Raises:
        KtcError: E-DEVICE-NAME (usage).
    """
    from .cuda_driver import described

    kind, rest = _named(name)
    if kind not in ("auto", "cuda") or not (rest or "0").isdigit() or importlib.util.find_spec("cupy") is None:
        return None
    try:
        device = described(int(rest or 0))
    except KtcError:
        return None  # opening says why
    opened = {"picked": FIRST, "opened": f"cuda:{rest}" if rest else "cuda"}
    return dataclasses.replace(device, extra={**device.extra, **opened})


def _picked(runtime: Runtime, name: str, reasons: list[str], line: str = "") -> Runtime:
    """``runtime`` with what is said of the choice of it; ``line``: of how fast it was."""
    extra = {"picked": "; ".join(reasons) or FIRST, "opened": name} | ({"contest": line} if line else {})
    runtime.device = dataclasses.replace(runtime.device, extra={**runtime.device.extra, **extra})
    return runtime


def open_device(name: str) -> Runtime:
    """The runtime ``name`` (a kind, and what follows), whether it works or not."""
    kind, _, rest = name.partition(":")
    return OPENERS[kind][0](rest)


def require_package(name: str | None) -> None:
    """Whether the device that is asked for can be opened at all is known before anything is read or drafted for it.

    Raises:
        KtcError: E-DEVICE-NAME (usage), or what to install (environment).
    """
    kind, rest = _named(name)
    if kind in PACKAGES and importlib.util.find_spec(PACKAGES[kind]) is None:
        open_device(f"{kind}:{rest}")


def _named(name: str | None) -> tuple[str, str]:
    kind, _, rest = (name or "auto").partition(":")
    kind = ALIASES.get(kind.lower(), kind.lower())
    if kind != "auto" and kind not in OPENERS:
        raise KtcError(
            "E-DEVICE-NAME", f"no device kind '{kind}'", hint=f"one of: auto, {', '.join(OPENERS)}", exit_code=2
        )
    return kind, rest


def _candidates(kind: str, rest: str) -> Iterator[str]:
    """The devices that ``kind:rest`` may mean, the best first: a driver's second device may work where its first does
    not."""
    for each in OPENERS if kind == "auto" else (kind,):
        numbers = _opencl_numbers() if each == "opencl" and not rest else 0
        yield from (f"{each}:{i}" for i in range(numbers)) if numbers else [f"{each}:{rest}" if rest else each]


def _opencl_numbers() -> int:
    """How many OpenCL devices there are to choose from; 0 where the user chose one, or they cannot be listed."""
    from .opencl_runtime import devices, import_pyopencl

    if os.environ.get("KTC_OPENCL_DEVICE"):
        return 0
    try:
        return len(devices(import_pyopencl()))
    except KtcError:
        return 0  # opening says why


def probe(kind: str) -> list[DeviceProbe]:
    """Try the devices of one kind: one result each; if there is none, one that says what is missing. Never raises."""
    from .device_trial import prove

    return [_probed(name, prove) for name in _candidates(kind, "")]


def _probed(name: str, prove: Callable[[Runtime, str], None]) -> DeviceProbe:
    how = OPENERS[name.partition(":")[0]][1]
    try:
        runtime = open_device(name)
    except KtcError as e:
        return DeviceProbe(name, "missing", e.message, e.hint or how)
    except Exception as e:  # a broken driver must not take the doctor down
        return DeviceProbe(name, "broken", f"{type(e).__name__}: {e}", how)
    try:
        prove(runtime, name)
    except KtcError as e:
        return DeviceProbe(name, "broken", e.message, how)
    platform = runtime.device.extra.get("platform", runtime.device.profile)
    return DeviceProbe(name, "ok", f"{runtime.device.name} ({platform})")


__all__ = ["OPENERS", "DeviceProbe", "expected_device", "open_device", "open_runtime", "probe", "require_package"]
