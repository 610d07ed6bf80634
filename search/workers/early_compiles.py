"""Kernels that every measuring process runs, compiled while its device is being opened.

NVRTC needs no device, but its first compilation in a process takes about as long as loading CuPy.
"""

from __future__ import annotations

import contextlib
import threading

from ktc.backends.base import DeviceInfo

CANARY = """
kernel canary(y: f32* restrict, x: f32 const* restrict, n: i32)
  launch grid(cdiv(n, 64)) block(64)
  let i: i32 = (blockIdx.x * blockDim.x + threadIdx.x) as i32
  if i < n
    y[i] = x[i] * 3.0 + 1.0
"""
"""What a measuring process launches first: its results are known."""


def begin(device: DeviceInfo) -> None:
    """Compile those kernels for ``device`` beside what this process does, where it takes no device to do so."""
    if device.backend == "cuda":
        threading.Thread(target=_compile, args=(device.backend, device.extra["arch"]), daemon=True).start()


def _compile(backend: str, arch: str) -> None:
    from ktc.backends import emit
    from ktc.backends.runtimes.checksum import cubin_of_checksum
    from ktc.backends.runtimes.nvrtc import cubin_of
    from ktc.ir.text import parse_kernel
    from ktc.search.bounds.measured_rates import KERNELS

    with contextlib.suppress(Exception):  # whoever needs such a kernel compiles it, and says why that fails
        for text in (CANARY, *KERNELS):
            cubin_of(emit(parse_kernel(text), backend), arch)
        cubin_of_checksum(arch)


__all__ = ["CANARY", "begin"]
