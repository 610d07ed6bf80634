"""Oclgrind's tests: ``x.cl`` with the launch and arguments in ``x.sim`` and the expected messages in ``x.ref``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ktc.ir.frontend import load
from ktc.ir.kernel import Kernel
from ktc.ir.types import Ptr, Vec, scalar_of
from ktc.ir.workload.input_data import numpy_dtype

from .case import Case, Instance, launched, triple

MESSAGES = (
    (re.compile(r"data race"), "race"),
    (re.compile(r"divergence detected"), "divergence"),
    (re.compile(r"Invalid (read|write) of size|exceeds static array size"), "out-of-bounds"),
    (re.compile(r"Uninitialized"), "uninitialised"),
    (re.compile(r"not aligned"), "misaligned"),
)

OUTSIDE = (
    (re.compile(r"write-only|read-only"), "access flags of a buffer"),
    (re.compile(r"wait event|waiting for events"), "events"),
)
"""Errors that no kind of finding stands for."""

JUDGED = ("race", "barrier-divergence", "warp-divergence", "out-of-bounds", "uninitialised", "misaligned")
_ELEMENTS = {
    "char": np.int8, "short": np.int16, "int": np.int32, "long": np.int64, "float": np.float32, "double": np.float64,
    "uchar": np.uint8, "ushort": np.uint16, "uint": np.uint32, "ulong": np.uint64,
}  # fmt: skip


def cases(root: str) -> Iterator[Case]:
    for path in sorted(Path(root).rglob("*.sim")):
        ref = path.with_suffix(".ref")
        errors = [s[6:] for s in ref.read_text().splitlines() if s.startswith("ERROR")] if ref.exists() else []
        faults = tuple(dict.fromkeys(kind for e in errors for pattern, kind in MESSAGES if pattern.search(e)))
        reasons = [why for e in errors for pattern, why in OUTSIDE if pattern.search(e)]
        lines = [s for s in path.read_text().splitlines() if s.strip() and not s.startswith("#")]
        whole, block = ([int(n) for n in s.split()] for s in lines[2:4])
        grid = triple([-(-w // b) for w, b in zip(whole, block)])
        outside = reasons[0] if reasons and not faults else ""
        if any(w % b for w, b in zip(whole, block)):
            outside = "work-groups of several sizes"
        yield Case(os.path.relpath(path, root), str(path.parent / lines[0].strip()), faults, JUDGED, outside,
                   lines[1].strip(), grid, triple(block), {"arguments": _arguments(lines[4:])})  # fmt: skip


def _arguments(lines: list[str]) -> list[tuple[dict[str, str], list[str]]]:
    """Per argument: its options and the values listed for it."""
    out: list[tuple[dict[str, str], list[str]]] = []
    for line in lines:
        if line.startswith("<"):
            words = line.strip("<> ").split()
            out.append(({w.partition("=")[0]: w.partition("=")[2] for w in words}, []))
        else:
            out[-1][1].extend(line.split())
    return out


def load_kernels(case: Case) -> list[Kernel]:
    return [load(case.path, kernel=case.kernel, include_dirs=(str(Path(case.path).parent),))]


def instances(case: Case, kernel: Kernel) -> Iterator[Instance]:
    args: dict[str, Any] = {}
    undefined: list[str] = []
    shared = 0
    params = [p for p in kernel.params if not p.init and p.scratch is None]
    given = list(case.data["arguments"])
    while params and given:
        options, values = given.pop(0)
        p = params.pop(0)
        name, t = p.sym.name, p.sym.type
        if "null" in options:
            args[name] = np.zeros(0, numpy_dtype(scalar_of(t).name)) if isinstance(t, Ptr) else 0
            continue
        size = int(options["size"])
        if name.endswith("_elems") and not isinstance(t, Ptr):  # local memory; its element size is the dynamic array's
            args[name] = max(size // _local_element(kernel, name), 1)
            shared += size
            continue
        elem = scalar_of(t)
        data = _filled(options, values, size, numpy_dtype(elem.name))
        if isinstance(t, Ptr):
            args[name] = data
            if not values and "fill" not in options and "range" not in options:
                undefined.append(name)
        elif isinstance(t, Vec):
            args[name] = data
        else:
            args[name] = data[0].item()
            for more in data[1:]:  # members of a struct follow one another
                if params:
                    args[params.pop(0).sym.name] = more.item()
    yield Instance(launched(kernel, case.grid, case.block, shared), args, tuple(undefined), "as given")


def _local_element(kernel: Kernel, name: str) -> int:
    from ktc.ir.nodes import Alloc
    from ktc.ir.walk import walk

    for s in walk(kernel.body):
        if isinstance(s, Alloc) and s.dynamic and s.sym.name == name.removesuffix("_elems"):
            t = s.sym.type
            elem = t.elem  # type: ignore[union-attr]
            return scalar_of(t).bytes * (int(elem.n) if isinstance(elem, Vec) else 1)  # type: ignore[call-overload]
    return 1


def _filled(options: dict[str, str], values: list[str], size: int, dtype: np.dtype) -> np.ndarray:
    """The bytes that the options and values describe, as elements of ``dtype``."""
    kind = next((np.dtype(t) for w, t in _ELEMENTS.items() if w in options), dtype)
    count = size // kind.itemsize
    read = (lambda s: float(s)) if kind.kind == "f" else (lambda s: int(s, 16 if "hex" in options else 0))
    if values:
        raw = np.array([read(v) for v in values]).astype(kind)
    elif "range" in options:
        start, step, stop = (read(v) for v in options["range"].split(":"))
        raw = np.arange(start, stop + step, step).astype(kind)
    else:
        raw = np.full(count, read(options.get("fill") or "0")).astype(kind)
    whole = np.zeros(size, np.uint8)
    bytes_ = raw.tobytes()[:size]
    whole[: len(bytes_)] = np.frombuffer(bytes_, np.uint8)
    return whole[: size // dtype.itemsize * dtype.itemsize].view(dtype)


def excused(case: Case, finding: Any) -> bool:
    return False
