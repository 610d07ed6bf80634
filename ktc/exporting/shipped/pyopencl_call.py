"""The kernels of a package on PyOpenCL arrays: built when first launched in a context, enqueued in the arrays' queue.

Working memory is kept per queue, so that launches in several queues do not share it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array

from .array_kernels import STORED, ArrayKernels
from .dispatch import Kernel, Launch, python_name

EXACT = "-cl-fp32-correctly-rounded-divide-sqrt"
"""Division and square root rounded as CUDA does by default, where a device can."""


class Kernels(ArrayKernels):
    """The kernels of one package, for PyOpenCL arrays."""

    what = "pyopencl.array.Array"

    def __init__(self, folder: Any) -> None:
        super().__init__(folder)
        self._functions: dict[tuple[int, str], tuple[Any, Any]] = {}
        self._scratch: dict[tuple[int, str, str], tuple[Any, Any]] = {}

    def is_array(self, x: Any) -> bool:
        return isinstance(x, cl.array.Array)

    def span(self, x: Any) -> tuple[int, int]:
        """Within one buffer places count; buffers are far from each other. OpenCL aligns them."""
        if x.base_data is None:  # there is no buffer of nothing
            return 0, 0
        whole = x.base_data.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT) or x.base_data
        offset = x.base_data.get_info(cl.mem_info.OFFSET) + x.offset
        start = (whole.int_ptr << 44) + offset
        return start, start + x.nbytes

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        return cl.array.empty(like.queue, shape, dtype)

    def limits(self, arrays: Mapping[str, Any]) -> tuple[int, str]:
        queues = {x.queue.int_ptr if x.queue is not None else 0 for x in arrays.values()}
        if len(queues) != 1 or 0 in queues:
            raise ValueError("all arrays need the same queue: x.with_queue(queue)")
        return int(next(iter(arrays.values())).queue.device.local_mem_size), ""

    def launch(self, launch: Launch, arrays: Mapping[str, Any]) -> None:
        queue = next(x.queue for x in arrays.values() if x is not None)
        kernel = launch.kernel
        function = self._function(kernel, queue.context, queue.device)
        held = {**{n: _buffer(x) for n, x in arrays.items()}, **self._working_memory(launch, queue)}
        arguments = [
            held[n] if t.startswith("*") else _scalar(t, launch.names[python_name(n)]) for n, t in kernel.arguments
        ]
        local = [cl.LocalMemory(max(launch.shared, 1))] if kernel.dynamic else []
        function.set_args(*arguments, *local)
        size = tuple(a * b for a, b in zip(launch.grid, launch.block))
        cl.enqueue_nd_range_kernel(queue, function, size, launch.block)

    def memory(self, name: str, dtype: str, size: int, arrays: Mapping[str, Any]) -> Any:
        queue = next(iter(arrays.values())).queue
        key = (queue.int_ptr, dtype, name)
        kept = self._scratch.get(key)
        if kept is None or kept[1].size < size:
            kept = self._scratch[key] = queue, cl.array.empty(queue, size, STORED[dtype])
        return kept[1]

    def _function(self, kernel: Kernel, context: Any, device: Any) -> Any:
        key = (context.int_ptr, str(kernel.file))
        if key not in self._functions:
            can = device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
            options = [*kernel.options, *([EXACT] if can and EXACT not in kernel.options else [])]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "non-empty compiler output" of a build that succeeds
                program = cl.Program(context, kernel.source()).build(options, devices=[device])
            self._functions[key] = context, getattr(program, kernel.entry)
        return self._functions[key][1]

    def _working_memory(self, launch: Launch, queue: Any) -> dict[str, Any]:
        made = {}
        for name, dtype, elements in launch.kernel.scratch:
            size = max(int(elements(launch.names)), 1)
            key = (queue.int_ptr, str(launch.kernel.file), name)
            kept = self._scratch.get(key)
            if kept is None or kept[1].size < size:
                kept = self._scratch[key] = queue, cl.array.zeros(queue, size, STORED[dtype])
            made[name] = kept[1].data
        return made


def _buffer(x: Any) -> Any:
    """The memory that a kernel gets: a part of a buffer as a sub-buffer; none for an array without elements."""
    if x is None or x.base_data is None:
        return None
    if x.offset == 0:
        return x.base_data
    return x.base_data.get_sub_region(x.offset, max(x.nbytes, 1))


def _scalar(kind: str, value: Any) -> Any:
    if kind == "bf16":
        bits = int(np.float32(value).view(np.uint32))
        return np.uint16((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    return np.dtype({"bool": "uint8"}.get(kind, STORED[kind])).type(value)
