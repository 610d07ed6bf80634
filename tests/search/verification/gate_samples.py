"""Workloads for the interpreter's sample kernels, and a runtime that launches through the interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ktc.backends.base import DeviceInfo, Emitted
from ktc.ir.interp import run
from ktc.ir.kernel import Kernel
from ktc.ir.types import Ptr
from ktc.ir.walk import assigned
from ktc.ir.workload import ArgSpec, Scenario, Workload


def _workload(name: str, args: tuple[ArgSpec, ...], *scenarios: dict[str, int]) -> Workload:
    named = tuple(Scenario(f"s{i}", s) for i, s in enumerate(scenarios))
    return Workload(Path("w.toml"), Path("k.cu"), name, args, named, {"": {}})


def scalar(name: str, value: str) -> ArgSpec:
    return ArgSpec(name, "i32", "scalar", value=value)


ROWS = _workload(
    "rms",
    (
        ArgSpec("y", "f32", "out", ("n", "d")),
        ArgSpec("x", "f32", "in", ("n", "d")),
        ArgSpec("w", "f32", "in", ("d",)),
        scalar("d", "d"),
        scalar("n", "n"),
    ),
    {"n": 64, "d": 4096},
    {"n": 7, "d": 111},
)

SOFTMAX = _workload(
    "softmax",
    (ArgSpec("y", "f32", "out", ("n", "d")), ArgSpec("x", "f32", "in", ("n", "d")), scalar("d", "d"), scalar("n", "n")),
    {"n": 64, "d": 1024},
)

COPY = _workload(
    "copy",
    (ArgSpec("y", "f16", "out", ("d",), align=16), ArgSpec("x", "f16", "in", ("d",), align=16), scalar("d", "d")),
    {"d": 100_000},
)

MATMUL = _workload(
    "mm",
    (
        ArgSpec("c", "f32", "out", ("m", "n")),
        ArgSpec("a", "f32", "in", ("m", "k")),
        ArgSpec("b", "f32", "in", ("k", "n")),
        scalar("m", "m"),
        scalar("n", "n"),
        scalar("k", "k"),
    ),
    {"m": 512, "n": 512, "k": 512},
)


class InterpretedExecutable:
    """Launches by interpreting; results are written back into the arrays it was given (views keep their offset)."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.resources: dict[str, int] = {}

    def launch(self, args) -> None:
        result = run(self.kernel, args, sanitize=False)
        for p in self.kernel.params:
            if isinstance(p.sym.type, Ptr) and p.sym in assigned(self.kernel.body):
                args[p.sym.name][...] = result.outputs[p.sym.name]


class InterpretedRuntime:
    """A device made of numpy: pointers are array views, so writes past one's end land in the same allocation."""

    def __init__(self, backend: str = "numba") -> None:
        self.device = DeviceInfo(backend, "interpreter", "none", 1, 1024, 1 << 16)

    def compile(self, code: Emitted) -> InterpretedExecutable:
        return InterpretedExecutable(code.kernel)

    def to_device(self, array: np.ndarray) -> np.ndarray:
        return array.copy()

    def to_host(self, array: np.ndarray, like: np.ndarray) -> np.ndarray:
        return array.copy()

    def synchronize(self) -> None:
        pass


def emitted(kernel: Kernel) -> Emitted:
    return Emitted("", kernel.name, "none", kernel)
