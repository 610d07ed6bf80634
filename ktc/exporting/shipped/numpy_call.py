"""The kernels of a package on numpy arrays, through numba: compiled when first called, and cached on disk by numba."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .array_kernels import STORED, ArrayKernels
from .dispatch import Kernel, Launch, python_name

# With Intel's vector functions, exp of an element depends on whether it is in the vectorised part of a loop.
os.environ.setdefault("NUMBA_DISABLE_INTEL_SVML", "1")


class Kernels(ArrayKernels):
    """The kernels of one package, for numpy arrays."""

    what = "numpy.ndarray"

    def __init__(self, folder: Any) -> None:
        super().__init__(folder)
        self._functions: dict[str, Callable[..., None]] = {}
        self._scratch: dict[tuple[str, str], np.ndarray] = {}

    def is_array(self, x: Any) -> bool:
        return isinstance(x, np.ndarray)

    def span(self, x: Any) -> tuple[int, int]:
        return x.ctypes.data, x.ctypes.data + x.nbytes

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        return np.empty(shape, dtype)

    def limits(self, arrays: Mapping[str, Any]) -> tuple[int, str]:
        return 1 << 62, ""

    def launch(self, launch: Launch, arrays: Mapping[str, Any]) -> None:
        held = {**arrays, **self._working_memory(launch)}
        names = launch.names
        arguments = (held[n] if t.startswith("*") else names[python_name(n)] for n, t in launch.kernel.arguments)
        self._function(launch.kernel)(*arguments)

    def memory(self, name: str, dtype: str, size: int, arrays: Mapping[str, Any]) -> Any:
        return np.empty(size, STORED[dtype])

    def _function(self, kernel: Kernel) -> Callable[..., None]:
        found = self._functions.get(str(kernel.file))
        if found is None:
            name = f"{__package__ or 'exported'}_{kernel.file.stem}".replace(".", "_")
            spec = importlib.util.spec_from_file_location(name, kernel.file)
            assert spec is not None and spec.loader is not None
            module = sys.modules[name] = importlib.util.module_from_spec(spec)  # numba's cache looks it up there
            spec.loader.exec_module(module)
            found = self._functions[str(kernel.file)] = getattr(module, kernel.entry)
        return found

    def _working_memory(self, launch: Launch) -> dict[str, np.ndarray]:
        made = {}
        for name, dtype, elements in launch.kernel.scratch:
            size = max(int(elements(launch.names)), 1)
            key = (str(launch.kernel.file), name)
            kept = self._scratch.get(key)
            if kept is None or kept.size < size:
                kept = self._scratch[key] = np.zeros(size, STORED[dtype])
            made[name] = kept
        return made
