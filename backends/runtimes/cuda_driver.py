"""The CUDA driver through ctypes: what a device is, known long before CuPy is loaded."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from ktc.backends.base import DeviceInfo
from ktc.backends.device_table import peaks_of
from ktc.ir.diagnostics import KtcError

ATTRIBUTES = {
    "max_threads_per_block": 1, "shared_per_block": 8, "warp": 10, "compute_units": 16, "l2_bytes": 38,
    "max_threads_per_sm": 39, "major": 75, "minor": 76, "shared_per_sm": 81, "registers_per_sm": 82,
    "shared_optin": 97,
}  # fmt: skip
"""CUdevice_attribute (cuda.h), by what :class:`~ktc.backends.base.DeviceInfo` calls it. Sizes in bytes."""

NAME_BYTES = 256


@functools.cache
def driver() -> ctypes.CDLL:
    """The CUDA driver. Raises KtcError E-DEVICE-CUDA where there is none."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as e:
        raise KtcError("E-DEVICE-CUDA", f"no CUDA driver: {e}", exit_code=3) from None


def described(ordinal: int = 0) -> DeviceInfo:
    """The device with this number among those that the process may see. Makes no context.

    Raises:
        KtcError: E-DEVICE-CUDA: there is no driver, or no such device.
    """
    _call("cuInit", 0)
    device, version, memory = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
    name = ctypes.create_string_buffer(NAME_BYTES)
    _call("cuDeviceGet", ctypes.byref(device), ordinal)
    _call("cuDeviceGetName", name, NAME_BYTES, device)
    _call("cuDeviceTotalMem_v2", ctypes.byref(memory), device)
    _call("cuDriverGetVersion", ctypes.byref(version))
    known = {what: _attribute(number, device) for what, number in ATTRIBUTES.items()}
    arch = f"sm_{known['major']}{known['minor']}"
    called = name.value.decode(errors="replace")
    peaks = peaks_of(called)
    return DeviceInfo(
        "cuda", called, f"cuda-{arch.replace('_', '')}", known["compute_units"], known["max_threads_per_block"],
        known["shared_optin"] or known["shared_per_block"], known["warp"],
        l2_bytes=known["l2_bytes"], global_bytes=memory.value,
        dram_bytes_per_s=peaks.dram_bytes_per_s if peaks else 0.0, f32_flops=peaks.f32_flops if peaks else 0.0,
        extra={
            "arch": arch,
            "driver": str(version.value),
            **{what: str(known[what]) for what in ("shared_per_sm", "registers_per_sm", "max_threads_per_sm")},
        },
    )  # fmt: skip


def _attribute(number: int, device: ctypes.c_int) -> int:
    value = ctypes.c_int()
    _call("cuDeviceGetAttribute", ctypes.byref(value), number, device)
    return value.value


def _call(function: str, *args: Any) -> None:
    call: Callable[..., int] = getattr(driver(), function)
    error = call(*args)
    if error:
        hint = "check nvidia-smi and the driver"
        raise KtcError("E-DEVICE-CUDA", f"no CUDA device: {function} gives error {error}", hint=hint, exit_code=3)


__all__ = ["described", "driver"]
