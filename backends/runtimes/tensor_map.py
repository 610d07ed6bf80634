"""Descriptors for bulk copies, made by the driver, and launches that pass them by value.

``cuTensorMapEncodeTiled`` and ``cuLaunchKernel`` of the CUDA driver API through ctypes: CuPy knows neither descriptors
nor arguments of their size.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.fragments import panel_of
from ktc.ir.producer_launch import TensorMap
from ktc.ir.types import BF16, F16, I8, U8, Scalar, scalar_of

from .cuda_driver import driver

BYTES, ALIGNMENT = 128, 64
"""Of a CUtensorMap (cuda.h)."""

ELEMENT = {F16: 6, BF16: 9, I8: 0, U8: 0}
"""CUtensorMapDataType, by element; bytes are moved as unsigned ones."""
U16 = 1
SWIZZLE_128B, L2_PROMOTION_128B = 3, 2


def encode(m: TensorMap, address: int, env: Mapping[str, int]) -> np.ndarray:
    """The 128 bytes that describe ``m`` at ``address``; ``env``: integer parameters and knobs by name.

    A matrix without elements is never read: its descriptor is zeros.

    Raises:
        KtcError: E-LAUNCH-UNKNOWN (a size without a value), E-LAUNCH-FAILED (the driver refused it).
    """
    sizes = [evaluate(e, env) for e in (*m.extent, m.pitch)]
    if any(n is None for n in sizes):
        raise KtcError("E-LAUNCH-UNKNOWN", f"the shape of '{m.src.name}' is not known")
    rows, columns, pitch = (int(n) for n in sizes if n is not None)
    space = np.zeros(BYTES + ALIGNMENT, np.uint8)
    start = -space.ctypes.data % ALIGNMENT
    out = space[start : start + BYTES]
    if rows < 1 or columns < 1:
        return out
    elem = scalar_of(m.src.type)
    assert isinstance(elem, Scalar)
    extents, ones = (ctypes.c_uint64 * 2)(columns, rows), (ctypes.c_uint32 * 2)(1, 1)
    strides, box = (ctypes.c_uint64 * 1)(pitch * elem.bytes), (ctypes.c_uint32 * 2)(panel_of(elem), m.rows)
    error = driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(out.ctypes.data), ELEMENT.get(elem, U16), 2, ctypes.c_void_p(address), extents, strides, box,
        ones, 0, SWIZZLE_128B, L2_PROMOTION_128B, 0,
    )  # fmt: skip
    if error:
        shape = f"{rows} x {columns}, {pitch} elements a row, at {address:#x}"
        raise KtcError("E-LAUNCH-FAILED", f"the driver refused to describe '{m.src.name}' ({shape}): error {error}")
    return out


class Packed(tuple):
    """Kernel arguments as the driver wants them: an array of pointers, and what they point to."""

    def __new__(cls, values: Sequence[Any]) -> Packed:
        kept = [_bytes(v) for v in values]
        pointers = (ctypes.c_void_p * len(kept))(*(k.ctypes.data for k in kept))
        return super().__new__(cls, (kept, pointers))


def _bytes(value: Any) -> np.ndarray:
    """``value``, or the address of a device array, where the driver can read it."""
    if hasattr(value, "data") and hasattr(value.data, "ptr"):
        return np.array([value.data.ptr], np.uint64)
    return np.atleast_1d(np.asarray(value))


def launch(function: int, grid: Sequence[int], block: Sequence[int], args: Packed, shared: int, stream: int) -> int:
    """The driver's error code, 0 for none."""
    return driver().cuLaunchKernel(
        ctypes.c_void_p(function), *grid, *block, shared, ctypes.c_void_p(stream), args[1], None
    )  # fmt: skip
