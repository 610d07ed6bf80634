"""Which kernel runs for a call, and how it is launched: ``kernel.json`` as functions. Needs nothing but Python.

A call is checked against the shapes and dtypes of ``kernel.json``; its sizes follow from the shapes. A tuned kernel
runs where the call lies between measurements, the nearest of them speak for it, and everything that the kernel relies
on holds; the original kernel runs everywhere else.
"""

from __future__ import annotations

import json
import keyword
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_FUNCTIONS = {"__builtins__": {}, "min": min, "max": max, "abs": abs, "math": math}
_RESERVED = {"np", "cp", "kernel", "stream", "min", "max", "abs", "math"}
_BITS = {"i8": 8, "u8": 8, "i16": 16, "u16": 16, "i32": 32, "u32": 32, "i64": 64, "u64": 64}
FASTER = 1.0
"""The lower end of the interval of a speed-up from which on a variant counts as faster."""

REACH = 2
"""How many times as far away as the nearest measurement others may lie that are asked too."""

BYTES = {
    "f16": 2,
    "bf16": 2,
    "f32": 4,
    "f64": 8,
    "e4m3": 1,
    "e5m2": 1,
    "bool": 1,
    **{k: v // 8 for k, v in _BITS.items()},
}


def python_name(name: str) -> str:
    """A parameter's name as expressions and signatures have it."""
    return name + "_" if keyword.iskeyword(name) or name in _RESERVED else name


class Expression:
    """Python text over names, compiled once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._code = compile(text, "kernel.json", "eval")

    def __call__(self, names: Mapping[str, Any]) -> Any:
        return eval(self._code, _FUNCTIONS, names)  # type: ignore[arg-type]  # text of this package, no builtins


class Kernel:
    """One compiled kernel's description: see ``Code`` in ktc's ``ktc/exporting/artefact.py`` for the fields."""

    def __init__(self, data: Mapping[str, Any], folder: Path) -> None:
        self.data = data
        self.file: Path = folder / data["file"]
        self.key = str(self.file)
        self.entry: str = data["entry"]
        self.arguments: list[tuple[str, str]] = [(n, t) for n, t in data["arguments"]]
        self.options: list[str] = data["options"]
        self.arch: str = data["arch"]
        self.cooperative: bool = data["cooperative"]
        self.dynamic: bool = data["dynamic"]
        self.grid = [Expression(t) for t in data["grid"]]
        self.block = [Expression(t) for t in data["block"]]
        self.shared = Expression(data["shared"])
        self.requires = [Expression(t) for t in data["requires"]]
        self.aligned: Mapping[str, int] = data["aligned"]
        self.apart = [
            (a["one"], Expression(a["first"]), Expression(a["end"]), a["other"], Expression(a["other_first"]),
             Expression(a["other_end"]))
            for a in data["apart"]
        ]  # fmt: skip
        self.room = Expression(data["room"]) if data["room"] else None
        self.scratch = [(s["name"], s["dtype"], Expression(s["elements"])) for s in data["scratch"] if not s["passed"]]
        self.passed = [(s["name"], s["dtype"], Expression(s["elements"])) for s in data["scratch"] if s["passed"]]
        self.then = [Kernel(k, folder) for k in data["then"]]
        self.matrices = [
            (m["buffer"], *(Expression(m[k]) for k in ("rows", "columns", "pitch")), m["box_rows"], m["dtype"])
            for m in data["matrices"]
        ]  # fmt: skip

    @property
    def launches(self) -> list[Kernel]:
        """This kernel, and those that are launched after it."""
        return [self, *self.then]

    def source(self) -> str:
        return self.file.read_text(encoding="utf-8")

    def runs_on(self, arch: str) -> bool:
        """Whether a device of compute capability ``arch`` (``sm_90``) has the instructions."""
        if not self.arch or not arch:
            return True
        digits = "".join(c for c in self.arch if c.isdigit())
        if self.arch[-1].isalpha():
            return arch == f"sm_{digits}"
        return int(arch.removeprefix("sm_")) >= int(digits)


class Launch:
    """What is to be launched: ``kernel`` with ``grid``, ``block`` and ``shared`` bytes; ``names`` are the scalars."""

    def __init__(self, kernel: Kernel, names: Mapping[str, Any]) -> None:
        self.kernel, self.names = kernel, names
        self.prepared: Any = None  # what a module that launches keeps of it
        try:
            self.grid = tuple(int(e(names)) for e in kernel.grid)
            self.block = tuple(int(e(names)) for e in kernel.block)
            self.shared = int(kernel.shared(names))
        except ZeroDivisionError:
            raise ValueError(f"no launch of {kernel.entry} for {dict(names)}: a size is zero") from None
        self.empty = any(n <= 0 for n in (*self.grid, *self.block))
        """There is nothing to do."""

        self.then = [Launch(k, names) for k in kernel.then]

    @property
    def steps(self) -> list[Launch]:
        """The launches to be made, in order: of a sequence all that have something to do."""
        return [step for step in (self, *self.then) if not step.empty]

    def passed_on(self) -> list[tuple[str, str, int]]:
        """What launches of a sequence leave for each other: names, dtypes, elements."""
        found = {n: (n, t, max(int(e(s.names)), 1)) for s in self.steps for n, t, e in s.kernel.passed}
        return list(found.values())


class Call:
    """A call whose sizes are known: what depends on them alone is decided once."""

    def __init__(self, instance: Instance, sizes: Mapping[str, int], names: Mapping[str, Any]) -> None:
        self.instance, self.sizes, self.names = instance, sizes, names
        self.original = Launch(instance.original, names)
        self.tuned: Launch | None = None
        self._fits: dict[tuple[int, str], bool] = {}
        index = instance.chosen(names)
        if index is not None and instance.holds(instance.variants[index], names):
            self.tuned = Launch(instance.variants[index], names)

    def launch(self, addresses: Mapping[str, int | None], most_shared: int, arch: str) -> Launch:
        """The launch for buffers at ``addresses`` (None: a buffer that is not there), on a device that has
        ``most_shared`` bytes of shared memory for a block."""
        tuned = self.tuned
        if tuned is None or not self.fits(tuned, most_shared, arch) or not addressed(tuned, addresses):
            return self.original
        return tuned

    def fits(self, launch: Launch, most_shared: int, arch: str) -> bool:
        key = (most_shared, arch)
        if key not in self._fits:
            room = launch.kernel.room
            enough = room is None or int(room(launch.names)) <= most_shared
            self._fits[key] = enough and launch.kernel.runs_on(arch)
        return self._fits[key]

    def forced(self, which: int | None) -> Launch | None:
        """The launch of the original (None) or of one variant; None where that variant's conditions do not hold."""
        if which is None:
            return self.original
        kernel = self.instance.variants[which]
        return Launch(kernel, self.names) if self.instance.holds(kernel, self.names) else None


def addressed(launch: Launch, addresses: Mapping[str, int | None]) -> bool:
    """Whether the buffers lie as the kernel needs them."""
    kernel, names = launch.kernel, launch.names
    for name, n in kernel.aligned.items():
        at = addresses[name]
        if at is not None and at % n:
            return False
    for one, first, end, other, other_first, other_end in kernel.apart:
        a, b = addresses[one], addresses[other]
        if a is None or b is None:
            continue
        if a + end(names) > b + other_first(names) and b + other_end(names) > a + first(names):
            return False
    return True


class Instance:
    """The kernels for one combination of dtypes."""

    def __init__(self, data: Mapping[str, Any], folder: Path) -> None:
        self.dtypes: Mapping[str, str] = data["dtypes"]
        self.original = Kernel(data["original"], folder)
        self.variants = [Kernel(v, folder) for v in data["variants"]]
        self.points = data["points"]
        self.everywhere: int | None = data["everywhere"]
        won = [p["at"] for p in self.points if p["variant"] is not None]
        names = won[0] if won else {}
        self.box = {n: (min(p[n] for p in won), max(p[n] for p in won)) for n in names}

    def chosen(self, names: Mapping[str, Any]) -> int | None:
        """The variant for these scalars; None for the original."""
        if self.everywhere is not None:
            return self.everywhere
        if not self.box or any(not low <= names[python_name(n)] <= high for n, (low, high) in self.box.items()):
            return None
        by_distance = sorted((self._distance(p["at"], names), k) for k, p in enumerate(self.points))
        reach = REACH * by_distance[0][0]
        near = [dict(self.points[k]["speedups"]) for distance, k in by_distance if distance <= reach]
        least = {v: min(speedups.get(v, math.inf) for speedups in near) for v in near[0]}
        best = max(least, key=lambda v: least[v], default=None)
        return best if best is not None and least[best] >= FASTER else None

    def _distance(self, at: Mapping[str, int], names: Mapping[str, Any]) -> float:
        return sum(abs(math.log((names[python_name(n)] + 1) / (v + 1))) for n, v in at.items())

    def holds(self, kernel: Kernel, names: Mapping[str, Any]) -> bool:
        """Whether everything that ``kernel`` relies on of the scalars is so."""
        try:
            return all(e(names) for e in kernel.requires)
        except ZeroDivisionError:
            return False


class Parameter:
    """One argument of the callable, or a scalar that is computed."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.name: str = data["name"]
        self.role: str = data["role"]
        self.is_buffer = self.role != "scalar"
        self.shape = [Expression(t) for t in data["shape"]]
        self.value = Expression(data["value"]) if data["value"] else None
        self.defines: str = data["defines"]
        self.optional: bool = data["optional"]
        self.alone: bool = data["alone"]

    @property
    def given(self) -> bool:
        """Whether callers pass it."""
        return self.is_buffer or self.value is None


class Exported:
    """``kernel.json`` of a package. ``folder`` holds it and the kernels' texts."""

    def __init__(self, folder: Path) -> None:
        data = json.loads((folder / "kernel.json").read_text(encoding="utf-8"))
        self.name: str = data["name"]
        self.reorders: bool = data["reorders"]
        self.parameters = [Parameter(p) for p in data["parameters"]]
        self.buffers = [p for p in self.parameters if p.is_buffer]
        self.scalars = [p for p in self.parameters if not p.is_buffer and p.given]
        self.sizes = [(s["size"], s["parameter"], s["axis"], Expression(s["text"])) for s in data["sizes"]]
        defined = {p.defines for p in self.scalars}
        self.loose = [size for size, parameter, _, _ in self.sizes if not parameter and size not in defined]
        self.instances = [Instance(i, folder / "kernels") for i in data["instances"]]
        self._calls: dict[Any, Call] = {}

    def shapes_of_outputs(self, shapes: Mapping[str, Sequence[Any]], given: Mapping[str, Any]) -> dict[str, tuple]:
        """The shapes of all outputs for inputs of ``shapes`` (symbolic extents too) and the scalars ``given``."""
        sizes = self.solved(shapes, given)
        return {p.name: tuple(e(sizes) for e in p.shape) for p in self.buffers if p.role == "out"}

    def solved(self, shapes: Mapping[str, Sequence[Any]], given: Mapping[str, Any]) -> dict[str, Any]:
        """Every size of a call.

        Raises:
            ValueError: an array has too few dimensions.
        """
        sizes: dict[str, Any] = {p.defines: given[p.name] for p in self.scalars if p.defines}
        for size, parameter, axis, text in self.sizes:
            if not parameter:
                sizes.setdefault(size, given.get(size))
                continue
            shape = shapes[parameter]
            if axis >= len(shape):
                raise ValueError(f"{parameter}: {len(shape)} dimensions, expected {self._expected(parameter)}")
            try:
                sizes[size] = text({**sizes, "dim": shape[axis]})
            except ZeroDivisionError:
                sizes[size] = 0
        return sizes

    def _expected(self, name: str) -> str:
        p = next(p for p in self.buffers if p.name == name)
        return f"shape [{', '.join(e.text for e in p.shape)}]"

    def call(self, shapes: Mapping[str, Any], dtypes: Mapping[str, str | None], given: Mapping[str, Any]) -> Call:
        """The call with buffers of these shapes (None: not there) and dtypes, and these scalars.

        Raises:
            TypeError: no kernel for the dtypes. ValueError: shapes that do not go together, a scalar out of range.
        """
        key = (*shapes.items(), *dtypes.values(), *given.items())
        found = self._calls.get(key)
        if found is None:
            if len(self._calls) > 4096:
                self._calls.clear()
            found = self._calls[key] = self._call(shapes, dtypes, given)
        return found

    def _call(self, shapes: Mapping[str, Any], dtypes: Mapping[str, str | None], given: Mapping[str, Any]) -> Call:
        instance = self._instance(dtypes)
        sizes = self.solved(shapes, given)
        for p in self.buffers:
            if shapes[p.name] is None:
                continue
            wanted = tuple(int(e(sizes)) for e in p.shape)
            if tuple(shapes[p.name]) != wanted:
                known = ", ".join(f"{k}={v}" for k, v in sizes.items())
                raise ValueError(f"{p.name}: shape {tuple(shapes[p.name])}, expected {wanted}: "
                                 f"{self._expected(p.name)} with {known}")  # fmt: skip
        names: dict[str, Any] = {}
        for p in self.parameters:
            if p.is_buffer:
                names[python_name(p.name)] = shapes[p.name]
            else:
                value = p.value(sizes) if p.value is not None else given[p.name]
                names[python_name(p.name)] = _scalar(p.name, value, instance.dtypes.get(p.name, "i64"))
        for size, value in sizes.items():  # those that no scalar carries are coordinates of measurements, too
            names.setdefault(python_name(size), value)
        return Call(instance, sizes, names)

    def _instance(self, dtypes: Mapping[str, str | None]) -> Instance:
        for i in self.instances:
            if all(t is None or i.dtypes[n] == t for n, t in dtypes.items()):
                return i
        have = "; ".join(", ".join(f"{n} {i.dtypes[n]}" for n in dtypes) for i in self.instances)
        asked = ", ".join(f"{n} {t}" for n, t in dtypes.items() if t is not None)
        raise TypeError(f"{self.name} has no kernel for {asked}; it has: {have}")


def _scalar(name: str, value: Any, dtype: str) -> Any:
    """``value`` as the kernel gets it.

    Raises:
        ValueError: it is out of the range of its type.
    """
    bits = _BITS.get(dtype)
    if bits is None:
        return value
    value = int(value)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype[0] == "i" else (0, (1 << bits) - 1)
    if not low <= value <= high:
        raise ValueError(f"{name}: {value} does not fit into {dtype}")
    return value


def apart_pairs(exported: Exported) -> list[tuple[str, str]]:
    """Pairs of buffers of which the kernel's source rules out that they share memory."""
    names = exported.buffers
    return [
        (p.name, q.name)
        for i, p in enumerate(names)
        for q in names[i + 1 :]
        if (p.role != "in" or q.role != "in") and (p.alone or q.alone)
    ]


def shared(one: str, other: str) -> str:
    """What is said of two buffers that do."""
    return f"{one} and {other} share memory, which the kernel's source rules out (__restrict__)"


def overlapping(exported: Exported, spans: Mapping[str, tuple[int, int] | None]) -> str:
    """Which buffers share memory though the kernel's source rules it out: '' where none do. ``spans``: the first byte
    of each and the one after its last."""
    for one, other in apart_pairs(exported):
        a, b = spans[one], spans[other]
        if a is not None and b is not None and a[0] < b[1] and b[0] < a[1]:
            return shared(one, other)
    return ""
