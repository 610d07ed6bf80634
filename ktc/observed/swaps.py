"""Which launches of a program a tuned kernel takes the place of, as the preloaded library reads it.

A launch is swapped if the workload gives its geometry for its scalars: by the kernel that won at its sizes, or, at
sizes of no scenario, by that of the first that explains it. What the tuned kernel assumes of scalars is tested here,
for they are known; what it assumes of pointers is tested at each launch, by the library: where it does not hold, the
original runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktc.backends.base import CompileFailure, Emitted
from ktc.backends.launchers.launch_geometry import check_tested
from ktc.backends.launchers.launch_geometry import geometry as launch_needs
from ktc.backends.runtimes.common import geometry, integers
from ktc.backends.runtimes.nvrtc import cubin_of
from ktc.ir.diagnostics import KtcError
from ktc.ir.fold import evaluate
from ktc.ir.frontend.host.captured import Instance, Slot
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import Expr, is_cooperative
from ktc.ir.producer_launch import tensor_maps
from ktc.ir.types import Scalar, scalar_of
from ktc.ir.workload import Workload, size_expressions
from ktc.ir.workload.input_data import numpy_dtype
from ktc.ir.workload.reference import FormulaError
from ktc.profiling.kernel_bounds import scalars_of
from ktc.profiling.profile_format import Launched, Shape

ALIGN = 8
"""Bytes to which constants are padded: any scalar may begin there."""


@dataclass(frozen=True)
class Tuned:
    """A tuned kernel: ``original`` with the facts of its workload, and what takes its place, printed, by scenario
    (None: the original is the fastest there); ``arch``: of the device that it was tuned for, as ``sm_90``."""

    workload: Workload
    original: Kernel
    codes: Mapping[str, Emitted | None]
    arch: str


@dataclass(frozen=True)
class Unswapped:
    """Launches that stay as they are, and why."""

    kernel: str
    launches: int
    why: str


def swap_lines(
    f: Launched, found: Instance, tuned: Tuned, folder: Path, name: str
) -> tuple[list[str], list[Unswapped]]:
    """The lines for the launches of ``f``, whose source is ``found``; modules go to ``folder``, by ``name``."""
    modules = Modules(tuned.arch, folder, name)
    lines, left = [], list[Unswapped]()
    for shape in f.shapes:
        try:
            if shape.others:
                raise KtcError("E-TRYOUT", "too many combinations of scalars: not all were kept")
            scenario, scalars = _scalars(tuned, scalars_of(found, shape.arguments), shape)
            code = tuned.codes.get(scenario)
            if code is None:
                raise KtcError("E-TRYOUT", f"the original is the fastest at the sizes of {scenario}")
            lines.append(_line(f, shape, code, scalars, {s.name: s for s in found.slots}, modules.of(code)))
        except KtcError as e:
            left.append(Unswapped(f.kernel, shape.launches + shape.captured, e.message.splitlines()[0]))
    return lines, left


class Modules:
    """The compiled kernels of one original, each made when first asked for."""

    def __init__(self, arch: str, folder: Path, name: str) -> None:
        self.arch, self.folder, self.name = arch, folder, name
        self._made: dict[str, str | KtcError] = {}

    def of(self, code: Emitted) -> str:
        """The file and the entry of ``code``.

        Raises:
            KtcError: E-COMPILE, the compiler refuses it.
        """
        if code.text not in self._made:
            self._made[code.text] = self._compiled(code)
        made = self._made[code.text]
        if isinstance(made, KtcError):
            raise made
        return made

    def _compiled(self, code: Emitted) -> str | KtcError:
        file = f"{self.name}-{len(self._made)}.cubin"
        try:
            built = cubin_of(code, self.arch)
        except CompileFailure as e:
            return KtcError("E-COMPILE", f"the tuned kernel does not compile: {e.log.strip().splitlines()[0][:200]}")
        (self.folder / file).write_bytes(built.code)
        return f"{file} {built.symbol}"


def _parameters(k: Kernel) -> Iterator[Param]:
    """The parameters that the kernel's text has.

    Raises:
        KtcError: E-TRYOUT, one of them is none of the original's.
    """
    if tensor_maps(k) or is_cooperative(k.body):
        raise KtcError("E-TRYOUT", "it reads through tensor maps, or all its blocks wait for each other")
    for p in k.params:
        if p.symbol or p.init:
            raise KtcError("E-TRYOUT", f"it needs variables at file scope of its own: {p.sym.name}")
        if not p.host:
            yield p


@dataclass(frozen=True)
class _Arguments:
    """The tuned kernel's arguments in the launch's bytes followed by ``constants``: offset and size of each in
    ``places``; in ``memory`` offsets of addresses that the library fills in, and the bytes that it gives there."""

    places: tuple[int, ...]
    constants: bytes
    memory: tuple[int, ...]


def _arguments(
    parameters: Sequence[Param], slots: Mapping[str, Slot], scalars: Mapping[str, Any], env: Mapping[str, int], end: int
) -> _Arguments:
    """How the tuned kernel gets its arguments of a launch whose own ``end`` there: what only the host knew is a
    parameter of the tuned kernel, and so is working memory.

    Raises:
        KtcError: E-TRYOUT, a parameter's value or size is not known.
    """
    places, constants, memory = list[int](), b"", list[int]()
    for p in parameters:
        s, t = slots.get(p.sym.name), p.sym.type
        if s is not None and not s.inline and s.bits is None:
            places += [s.offset, s.size]
            continue
        if p.scratch is not None:
            elements, value = evaluate(p.scratch, env), bytes(ALIGN)
            if elements is None:
                raise KtcError("E-TRYOUT", f"the size of its working memory is not known: {p.sym.name}")
            memory += [end + len(constants), max(int(elements), 1) * scalar_of(t).bytes]
        elif isinstance(t, Scalar) and p.sym.name in scalars:
            value = numpy_dtype(t.name).type(scalars[p.sym.name]).tobytes()
        else:
            raise KtcError("E-TRYOUT", f"the launch has no such parameter by itself: {p.sym.name}")
        places += [end + len(constants), len(value)]
        constants += value.ljust(-(-len(value) // ALIGN) * ALIGN, b"\0")
    return _Arguments(tuple(places), constants, tuple(memory))


def _scalars(tuned: Tuned, passed: Mapping[str, int | float], shape: Shape) -> tuple[str, dict[str, int | float]]:
    """The scenario whose launch is the same, and the scalars of a launch, with those that only the host knows.

    Raises:
        KtcError: E-TRYOUT, no scenario explains the launch.
    """
    w = tuned.workload
    direct = {a.value: passed[a.name] for a in w.args if a.role == "scalar" and isinstance(a.value, str)
              and a.value.isidentifier() and a.name in passed}  # fmt: skip
    with_direct = [(s, {**s.sizes, **{n: int(v) for n, v in direct.items()}}) for s in w.scenarios]
    for scenario, sizes in sorted(with_direct, key=lambda x: x[1] != dict(x[0].sizes)):  # its own sizes first
        try:
            values = {**w.scalars(sizes), **sizes, **passed}
        except FormulaError:
            continue
        formulas = (a for a in w.args if a.role == "scalar" and isinstance(a.value, str) and not w.is_real(a))
        if any(_value(str(a.value), sizes) != passed[a.name] for a in formulas if a.name in passed):
            continue
        g = geometry(tuned.original, values)
        if (g.grid, g.block) == (shape.geometry.grid, shape.geometry.block):
            return scenario.name, values
    raise KtcError("E-TRYOUT", "the workload does not give its geometry for its sizes")


def _value(text: str, sizes: Mapping[str, int]) -> int | None:
    try:
        return size_expressions.evaluate(text, sizes)
    except FormulaError:
        return None


def _line(
    f: Launched, shape: Shape, code: Emitted, scalars: Mapping[str, Any], slots: Mapping[str, Slot], module: str
) -> str:
    k = code.kernel
    check_tested(k)
    needs, env = launch_needs(k), integers(k, scalars)

    def number(e: Expr) -> int:
        v = evaluate(e, env)
        if v is None:
            raise KtcError("E-TRYOUT", "what it assumes cannot be computed from the launch's arguments")
        return int(v)

    if not all(number(e) for e in needs.facts):
        raise KtcError("E-TRYOUT", "what the tuned kernel assumes of sizes does not hold")
    to = geometry(k, scalars)
    if to.empty:
        raise KtcError("E-TRYOUT", "the tuned kernel's grid would be empty")
    aligned = [(slots[p.sym.name].offset, n) for p, n in needs.aligned if p.sym.name in slots]
    apart = [
        (slots[x.buffer.name].offset, number(x.first), number(x.end))
        for pair in needs.apart
        for x in (pair.one, pair.other)
    ]
    g, held = shape.geometry, [p.offset for p in shape.pointers]
    given = _arguments(list(_parameters(k)), slots, scalars, env, len(shape.arguments))
    words = [
        f.symbol, *g.grid, *g.block, g.shared, *g.cluster, shape.arguments.hex() or "-", len(held), *held, module,
        *to.grid, *to.block, to.shared, given.constants.hex() or "-", len(given.places) // 2, *given.places,
        len(aligned), *(x for pair in aligned for x in pair), len(apart) // 2, *(x for r in apart for x in r),
        len(given.memory) // 2, *given.memory,
    ]  # fmt: skip
    return " ".join(map(str, words))


__all__ = ["Tuned", "Unswapped", "swap_lines"]
