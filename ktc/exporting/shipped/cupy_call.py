"""The kernels of a package on CuPy arrays: compiled by NVRTC when first launched, enqueued in the current stream.

Working memory is kept per device and stream. While a stream is captured into a graph it is allocated for that launch
and cleared by the graph, and held as long as this module lives.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import cupy
import numpy as np

from .array_kernels import STORED, ArrayKernels
from .dispatch import Kernel, Launch, python_name


class Kernels(ArrayKernels):
    """The kernels of one package, for CuPy arrays."""

    what = "cupy.ndarray"

    def __init__(self, folder: Any) -> None:
        super().__init__(folder)
        self._functions: dict[tuple[int, str], Any] = {}
        self._scratch: dict[tuple[int, int, str, str], Any] = {}
        self._captured: list[Any] = []
        self._limits: dict[int, tuple[int, str]] = {}

    def is_array(self, x: Any) -> bool:
        return isinstance(x, cupy.ndarray)

    def span(self, x: Any) -> tuple[int, int]:
        return x.data.ptr, x.data.ptr + x.nbytes

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        with like.device:
            return cupy.empty(shape, dtype)

    def limits(self, arrays: Mapping[str, Any]) -> tuple[int, str]:
        devices = {x.device.id for x in arrays.values()}
        if len(devices) > 1:
            raise ValueError(
                "arrays on several devices: " + ", ".join(f"{n} on {x.device.id}" for n, x in arrays.items())
            )
        device = next(iter(devices))
        if device not in self._limits:
            d = cupy.cuda.Device(device)
            self._limits[device] = d.attributes["MaxSharedMemoryPerBlockOptin"], f"sm_{d.compute_capability}"
        return self._limits[device]

    def launch(self, launch: Launch, arrays: Mapping[str, Any]) -> None:
        device = next(x.device for x in arrays.values() if x is not None)
        kernel = launch.kernel
        with device:
            function = self._function(kernel, device.id)
            held = {**arrays, **self._working_memory(launch, device.id)}
            arguments = tuple(_argument(n, t, held, launch.names) for n, t in kernel.arguments)
            if launch.shared > max(function.max_dynamic_shared_size_bytes, 0):
                function.max_dynamic_shared_size_bytes = launch.shared
            with warnings.catch_warnings():
                # CuPy reduces the grid of a cooperative launch that does not fit, and warns: another launch altogether.
                warnings.simplefilter("error", UserWarning)
                function(launch.grid, launch.block, arguments, shared_mem=launch.shared)

    def memory(self, name: str, dtype: str, size: int, arrays: Mapping[str, Any]) -> Any:
        stream, device = cupy.cuda.get_current_stream(), next(iter(arrays.values())).device
        with device:
            if stream.is_capturing():
                self._captured.append(cupy.empty(size, STORED[dtype]))
                return self._captured[-1]
            key = (device.id, stream.ptr, dtype, name)
            kept = self._scratch.get(key)
            if kept is None or kept.size < size:
                kept = self._scratch[key] = cupy.empty(size, STORED[dtype])
            return kept

    def _function(self, kernel: Kernel, device: int) -> Any:
        key = (device, str(kernel.file))
        if key not in self._functions:
            exact = kernel.arch if kernel.arch[-1:].isalpha() else ""
            options = ("-std=c++17", "-default-device", *kernel.options, *((f"-arch={exact}",) if exact else ()))
            module = cupy.RawModule(
                code=kernel.source(), options=options, name_expressions=(kernel.entry,),
                enable_cooperative_groups=kernel.cooperative,
            )  # fmt: skip
            self._functions[key] = module.get_function(kernel.entry)
        return self._functions[key]

    def _working_memory(self, launch: Launch, device: int) -> dict[str, Any]:
        made = {}
        stream = cupy.cuda.get_current_stream()
        for name, dtype, elements in launch.kernel.scratch:
            size = max(int(elements(launch.names)), 1)
            if stream.is_capturing():
                made[name] = cupy.zeros(size, STORED[dtype])
                self._captured.append(made[name])
                continue
            key = (device, stream.ptr, str(launch.kernel.file), name)
            kept = self._scratch.get(key)
            if kept is None or kept.size < size:
                kept = self._scratch[key] = cupy.zeros(size, STORED[dtype])
            made[name] = kept
        return made


def _argument(name: str, kind: str, arrays: Mapping[str, Any], names: Mapping[str, Any]) -> Any:
    if kind.startswith("*"):
        return np.uint64(0) if arrays[name] is None else arrays[name]
    value = names[python_name(name)]
    if kind == "bf16":
        bits = int(np.float32(value).view(np.uint32))
        return np.uint16((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    return np.dtype(STORED[kind]).type(value)
