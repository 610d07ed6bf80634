"""The memory of a captured launch on a device: one buffer per allocation, arguments that point into them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ktc.ir.diagnostics import KtcError
from ktc.ir.frontend.host.captured import Instance, Slot
from ktc.ir.kernel import Kernel, Param
from ktc.ir.types import Ptr, Scalar, Vec, scalar_of
from ktc.ir.workload.input_data import numpy_dtype

from .capture_format import Launch, Memory

ZONE = 4096
"""Zero bytes before and behind each allocation, so that a write outside of it does not change another, and is seen."""


class Zoned:
    """An allocation between two zones, on a device; :meth:`at` gives an argument that points into it."""

    def __init__(self, runtime: Any, content: np.ndarray, offsets: set[int]) -> None:
        self.runtime, self.bytes = runtime, content.size
        self.start = ZONE - self.shift(offsets)
        self.whole = np.zeros(self.start + -(-content.size // 16) * 16 + ZONE, np.uint8)
        self.whole[self.start : self.start + content.size] = content
        self.array = self.place()

    def shift(self, offsets: set[int]) -> int:
        """By how much less than a zone there is in front."""
        return 0

    def place(self) -> Any:
        return self.runtime.to_device(self.whole)

    def at(self, offset: int, param: Param) -> Any:
        """The argument for ``param``, ``offset`` bytes into the allocation."""
        return self.array[self.start + offset :]

    def read(self) -> tuple[np.ndarray, bool]:
        """The allocation's bytes now, and whether anything was written outside of it."""
        now = self.runtime.to_host(self.array, self.whole)
        end = self.start + self.bytes
        return now[self.start : end], bool(now[: self.start].any() or now[end:].any())


class CudaMemory(Zoned):
    """CUDA: a pointer is an address, so an argument may point anywhere."""


class CudaVariable(Zoned):
    """What is copied to a variable of the module, whose size it must have."""

    def at(self, offset: int, param: Param) -> Any:
        return self.array[self.start : self.start + self.bytes]


class ClMemory(Zoned):
    """An OpenCL buffer: an argument is a sub-buffer, whose start must be aligned. The allocation is laid into the
    buffer so that the starts that its launch uses are.

    Raises:
        KtcError: E-CAPTURE-ALIGNMENT, pointers into it have no common remainder.
    """

    def shift(self, offsets: set[int]) -> int:
        align = max(1, self.runtime.cl_device.mem_base_addr_align // 8)
        if len({o % align for o in offsets}) > 1:
            places = ", ".join(map(str, sorted(offsets)))
            raise KtcError("E-CAPTURE-ALIGNMENT", f"arguments point at bytes {places} of one allocation: OpenCL "
                           f"buffers start at multiples of {align} bytes")  # fmt: skip
        return min(offsets, default=0) % align

    def at(self, offset: int, param: Param) -> Any:
        origin = self.start + offset
        size = self.array.nbytes - origin
        return type(self.array)(self.array.buffer.get_sub_region(origin, size), size)


class CpuMemory(Zoned):
    """An array of numpy, seen in the type of each parameter."""

    def place(self) -> Any:
        return self.whole

    def at(self, offset: int, param: Param) -> Any:
        from ktc.backends.numba.numba_types import STORAGE_DTYPE

        dtype = np.dtype(STORAGE_DTYPE[scalar_of(param.sym.type).name].removeprefix("np."))
        if offset % dtype.itemsize:
            raise KtcError("E-CAPTURE-ALIGNMENT", f"'{param.sym.name}' points at byte {offset}: not a multiple of "
                           f"{dtype.itemsize}")  # fmt: skip
        rest = self.whole[self.start + offset :]
        return rest[: rest.size // dtype.itemsize * dtype.itemsize].view(dtype)

    def read(self) -> tuple[np.ndarray, bool]:
        now, end = self.whole, self.start + self.bytes
        return now[self.start : end].copy(), bool(now[: self.start].any() or now[end:].any())


MEMORY: dict[str, Any] = {"cuda": CudaMemory, "opencl": ClMemory, "numba": CpuMemory}
"""By the backend of the runtime."""


class Null:
    """A null pointer, as each runtime takes it."""

    buffer = None
    nbytes = 0


@dataclass
class Bound:
    """The arguments of a launch on a runtime: ``args`` by parameter, ``memories`` with the parameters that see them."""

    args: dict[str, Any]
    memories: list[tuple[Memory, Any, tuple[Param, ...]]]


def bind_arguments(launch: Launch, found: Instance, kernel: Kernel, runtime: Any) -> Bound:
    """What ``launch`` was given, on ``runtime``; ``kernel`` is the one that gets printed.

    Raises:
        KtcError: E-CAPTURE-POINTER for a pointer that leads to no memory that was captured, E-CAPTURE-VARIABLE for a
            variable at file scope that was not, E-CAPTURE-ALIGNMENT.
    """
    slots = {s.name: s for s in found.slots}
    users: dict[int, list[tuple[Param, int]]] = {}
    args: dict[str, Any] = {}
    inline: list[tuple[Param, np.ndarray]] = []
    for p in kernel.params:
        if p.host or p.scratch is not None:
            continue
        slot = slots.get(p.sym.name)
        if p.symbol:
            m = _variable(launch, p)
            users.setdefault(m.address, []).append((p, 0))
        elif slot is None:
            raise KtcError("E-CAPTURE-MISMATCH", f"the launch says nothing of the parameter '{p.sym.name}'", kernel.loc)
        elif p.rows:
            what = f"'{p.sym.name}' is an array of pointers, and what they point to was not captured"
            raise KtcError("E-CAPTURE-POINTER", what, kernel.loc)
        elif slot.inline:
            inline.append((p, np.frombuffer(_raw(launch, slot), np.uint8)))
        elif isinstance(p.sym.type, Ptr):
            address = int.from_bytes(_raw(launch, slot), "little")
            held = launch.holding(address)
            if held is not None:
                users.setdefault(held.address, []).append((p, address - held.address))
            elif address:
                raise KtcError("E-CAPTURE-POINTER", f"'{p.sym.name}' points to {address:#x}, which is in no memory "
                               "that the program allocated through the runtime", kernel.loc)  # fmt: skip
            else:
                args[p.sym.name] = np.uint64(0) if runtime.device.backend == "cuda" else Null()
        else:
            args[p.sym.name] = _value(launch, slot, p, runtime.device.backend)
    make: Any = MEMORY[runtime.device.backend]
    memories = []
    for m in launch.memories:
        if m.address in users:
            seen = users[m.address]
            kind = CudaVariable if m.is_variable and make is CudaMemory else make
            memory = kind(runtime, launch.content(m, "before"), {o for _, o in seen})
            memories.append((m, memory, tuple(p for p, _ in seen)))
            args |= {p.sym.name: memory.at(o, p) for p, o in seen}
    for p, content in inline:
        args[p.sym.name] = make(runtime, content, {0}).at(0, p)
    return Bound(args, memories)


def _raw(launch: Launch, slot: Slot) -> bytes:
    return launch.arguments[slot.offset : slot.offset + slot.size]


def _variable(launch: Launch, p: Param) -> Memory:
    """The variable at file scope that ``p`` stands for."""
    assert isinstance(p.sym.type, Ptr)
    lanes = p.sym.type.elem.n if isinstance(p.sym.type.elem, Vec) else 1
    size = p.extent * scalar_of(p.sym.type).bytes * int(lanes)  # type: ignore[call-overload, arg-type]
    named = [m for m in launch.memories if m.is_variable and m.name.split("::")[-1] == p.sym.name]
    fits = [m for m in named if m.bytes == size]
    if len(fits) == 1:
        return fits[0]
    what = f"{len(fits)} variables" if fits else f"one of {named[0].bytes} bytes" if named else "none"
    raise KtcError("E-CAPTURE-VARIABLE", f"'{p.sym.name}' is a variable of {size} bytes; the program has {what} of "
                   "that name")  # fmt: skip


def _value(launch: Launch, slot: Slot, p: Param, backend: str) -> Any:
    """A scalar or vector argument as numpy has it."""
    raw, t = _raw(launch, slot), p.sym.type
    if slot.bits is not None:
        first, count = slot.bits
        word = int.from_bytes(raw, "little") >> first & (1 << count) - 1
        signed = isinstance(t, Scalar) and t.name.startswith("i") and word >> count - 1
        return word - (1 << count) if signed else word
    values: Any = np.frombuffer(raw, numpy_dtype(scalar_of(t).name))
    if not isinstance(t, Vec):
        return values[0]
    return np.append(values, values[:1]) if t.n == 3 and backend == "opencl" else values.copy()


__all__ = ["Bound", "bind_arguments"]
