"""The kernels of a package as PyTorch operators, for CUDA tensors.

Two operators are registered: a functional one, which makes its outputs (and copies what the kernel updates in place),
and ``_out``, which writes into the tensors that it is given. Both have fake implementations, so that ``torch.compile``
and ``torch.export`` go through them, and both launch on the current stream of the tensors' device.

Working memory is kept per device and stream. While a stream is captured into a CUDA graph it is allocated in the
graph's own pool and cleared by the graph itself, so that a graph can be replayed anywhere, any number of times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from .dispatch import BYTES, Call, Exported, Instance, Launch, Parameter, apart_pairs, python_name, shared
from .nvrtc_module import Functions, limits, use_device

DTYPES = {
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "i8": torch.int8,
    "u8": torch.uint8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "bool": torch.bool,
    "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2,
    "u16": getattr(torch, "uint16", None), "u32": getattr(torch, "uint32", None), "u64": getattr(torch, "uint64", None),
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items() if dtype is not None}


class Operators:
    """The operators of one package, registered in ``namespace`` as ``NAME`` and ``NAME_out``."""

    def __init__(self, folder: Path, namespace: str) -> None:
        self.exported = e = Exported(folder)
        self.functions = Functions()
        self._scratch: dict[tuple[int, int, str, str], torch.Tensor] = {}
        self._known: dict[tuple[Any, ...], tuple[Call, tuple[int, str]]] = {}
        self._apart = apart_pairs(e)
        self.inputs = [p for p in e.buffers if p.role != "out"]
        self.outputs = [p for p in e.buffers if p.role == "out"]
        self.updated = [p for p in e.buffers if p.role == "inout"]
        scalars = [f"{_type(p, e.instances)} {python_name(p.name)}" for p in e.scalars]
        scalars += [f"SymInt {s}" for s in e.loose]
        self.scalar_names = [p.name for p in e.scalars] + list(e.loose)
        made = ", ".join(["Tensor"] * (len(self.outputs) + len(self.updated)))
        pure = ", ".join([*(f"{_tensor(p)} {python_name(p.name)}" for p in self.inputs), *scalars])
        written = [p for p in e.buffers if p.role != "in"]
        marks = {p.name: chr(97 + k) for k, p in enumerate(written)}
        into = ", ".join([*(f"{_tensor(p, marks.get(p.name))} {python_name(p.name)}" for p in e.buffers), *scalars])
        self._library = library = torch.library.Library(namespace, "FRAGMENT")
        library.define(f"{e.name}({pure}) -> {made if ',' not in made else f'({made})'}")
        library.define(f"{e.name}_out({into}) -> ()")
        library.impl(e.name, self._functional, "CUDA")
        library.impl(f"{e.name}_out", self._into, "CUDA")
        torch.library.register_fake(f"{namespace}::{e.name}", self._fake, lib=library)
        torch.library.register_fake(f"{namespace}::{e.name}_out", lambda *_: None, lib=library)
        torch.library.register_autograd(f"{namespace}::{e.name}", self._no_gradient, lib=library)

    # ------------------------------------------------------------------------------------------------ implementations

    def _functional(self, *args: Any) -> Any:
        tensors, given = self._named(self.inputs, args)
        instance = self._instance(tensors)
        shapes = self.exported.shapes_of_outputs(_shapes(tensors), given)
        like = next(t for t in tensors.values() if t is not None)
        for p in self.outputs:
            tensors[p.name] = torch.empty(shapes[p.name], dtype=DTYPES[instance.dtypes[p.name]], device=like.device)
        for p in self.updated:
            tensors[p.name] = tensors[p.name].clone(memory_format=torch.contiguous_format)  # type: ignore[union-attr]
        self.run(tensors, given)
        return _result([tensors[p.name] for p in (*self.outputs, *self.updated)])

    def _into(self, *args: Any) -> None:
        self.run(*self._named(self.exported.buffers, args))

    def _fake(self, *args: Any) -> Any:
        tensors, given = self._named(self.inputs, args)
        instance = self._instance(tensors)
        shapes = self.exported.shapes_of_outputs(_shapes(tensors), given)
        like = next(t for t in tensors.values() if t is not None)
        made = [like.new_empty(shapes[p.name], dtype=DTYPES[instance.dtypes[p.name]]) for p in self.outputs]
        made += [torch.empty_like(tensors[p.name], memory_format=torch.contiguous_format) for p in self.updated]
        return _result(made)

    def _no_gradient(self, *args: Any) -> Any:
        raise NotImplementedError(f"{self.exported.name} has no backward kernel: call it under torch.no_grad()")

    def _named(self, parameters: Sequence[Parameter], args: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        tensors = {p.name: a for p, a in zip(parameters, args)}
        return tensors, dict(zip(self.scalar_names, args[len(parameters) :]))

    def _instance(self, tensors: Mapping[str, torch.Tensor | None]) -> Instance:
        dtypes = {n: None if t is None else NAMES.get(t.dtype, str(t.dtype)) for n, t in tensors.items()}
        return self.exported._instance(dtypes)

    # --------------------------------------------------------------------------------------------------------- launch

    def run(self, tensors: Mapping[str, Any], given: Mapping[str, Any], force: int | None = -1) -> Launch | None:
        """Launch for ``tensors`` and the scalars ``given``; what was launched. ``force``: the number of a variant, or
        None for the original, in place of the choice (a variant whose conditions do not hold is not launched).

        Raises:
            TypeError, ValueError: dtypes, shapes, devices or layouts that the kernel cannot take.
        """
        device = self._device(tensors)
        key = (device, *((None if t is None else (t.shape, t.dtype)) for t in tensors.values()), *given.values())
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._call(tensors, given), limits(device)
        call, of_device = known
        addresses = {n: None if t is None else t.data_ptr() for n, t in tensors.items()}
        for one, other in self._apart:
            a, b = addresses[one], addresses[other]
            if a and b and a < b + tensors[other].nbytes and b < a + tensors[one].nbytes:
                raise ValueError(shared(one, other))
        launch = call.launch(addresses, *of_device) if force == -1 else call.forced(force)
        if launch is None or not launch.steps:
            return launch
        if torch.cuda.current_device() == device:
            self._enqueue(launch, device, addresses)
        else:
            with torch.cuda.device(device):
                self._enqueue(launch, device, addresses)
        return launch

    def _call(self, tensors: Mapping[str, Any], given: Mapping[str, Any]) -> Call:
        if len(self._known) > 4096:
            self._known.clear()
        dtypes = {n: None if t is None else NAMES.get(t.dtype, str(t.dtype)) for n, t in tensors.items()}
        return self.exported.call(_shapes(tensors), dtypes, given)

    def _enqueue(self, launch: Launch, device: int, addresses: dict[str, int | None]) -> None:
        use_device(device)
        stream = torch.cuda.current_stream(device).cuda_stream
        passed = {n: self._passed_on(n, t, size, device, stream) for n, t, size in launch.passed_on()}
        addresses.update((n, t.data_ptr()) for n, t in passed.items())
        for step in launch.steps:
            if step.kernel.scratch:
                memory = self._working_memory(step, device, stream)
                addresses.update((n, t.data_ptr()) for n, t in memory.items())
            self.functions.launch(step, device, stream, addresses)

    def _device(self, tensors: Mapping[str, torch.Tensor | None]) -> int:
        index = -1
        for n, t in tensors.items():
            if t is None:
                continue
            if not t.is_cuda:
                raise ValueError(f"{n}: a tensor on {t.device}, expected a CUDA device")
            if not t.is_contiguous():
                raise ValueError(f"{n}: not contiguous (strides {tuple(t.stride())}): pass {n}.contiguous()")
            if index not in (-1, t.get_device()):
                where = ", ".join(f"{n} on {t.device}" for n, t in tensors.items() if t is not None)
                raise ValueError(f"tensors on several devices: {where}")
            index = t.get_device()
        return index

    def _working_memory(self, launch: Launch, device: int, stream: int) -> dict[str, torch.Tensor]:
        made = {}
        for name, dtype, elements in launch.kernel.scratch:
            size = max(int(elements(launch.names)), 1) * BYTES[dtype]
            if torch.cuda.is_current_stream_capturing():
                made[name] = torch.zeros(size, dtype=torch.uint8, device=f"cuda:{device}")
                continue
            key = (device, stream, launch.kernel.key, name)
            kept = self._scratch.get(key)
            if kept is None or kept.numel() < size:
                kept = self._scratch[key] = torch.zeros(size, dtype=torch.uint8, device=f"cuda:{device}")
            made[name] = kept
        return made

    def _passed_on(self, name: str, dtype: str, size: int, device: int, stream: int) -> torch.Tensor:
        """Memory that launches of a sequence leave for each other."""
        key = (device, stream, dtype, name)
        kept = None if torch.cuda.is_current_stream_capturing() else self._scratch.get(key)
        if kept is None or kept.numel() < size * BYTES[dtype]:
            kept = torch.empty(size * BYTES[dtype], dtype=torch.uint8, device=f"cuda:{device}")
            if not torch.cuda.is_current_stream_capturing():
                self._scratch[key] = kept
        return kept

    def prepare(self, device: int | None = None) -> None:
        """Compile and load every kernel for a device ahead of the first call."""
        index = torch.cuda.current_device() if device is None else device
        torch.cuda.synchronize(index)  # makes the context
        with torch.cuda.device(index):
            use_device(index)
            for instance in self.exported.instances:
                for whole in (instance.original, *instance.variants):
                    for kernel in whole.launches if whole.runs_on(limits(index)[1]) else ():
                        self.functions.get(kernel, index)


def _shapes(tensors: Mapping[str, torch.Tensor | None]) -> dict[str, Any]:
    return {n: None if t is None else t.shape for n, t in tensors.items()}


def _result(tensors: list[Any]) -> Any:
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


def _tensor(p: Parameter, mark: str | None = None) -> str:
    return ("Tensor" if mark is None else f"Tensor({mark}!)") + ("?" if p.optional else "")


def _type(p: Parameter, instances: Sequence[Instance]) -> str:
    dtype = instances[0].dtypes.get(p.name, "i64")
    return "bool" if dtype == "bool" else "float" if dtype[0] in "fe" or dtype == "bf16" else "SymInt"
