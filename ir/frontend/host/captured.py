"""The instance of a kernel that a compiled program launched: from its demangled name, and where its arguments are.

A capture knows a kernel by its C++ name (``void ns::scale<float, 4>(float*, int)``) and by the offsets and sizes of its
parameters. Both must agree with what the source says, else nothing is taken.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.frontend.entry_points import Unit
from ktc.ir.frontend.lowering.calls.inline import params_of
from ktc.ir.frontend.lowering.declarations.parameters import MAX_MEMBERS, as_passed, is_pack
from ktc.ir.frontend.lowering.lower_kernel import KernelLowering
from ktc.ir.frontend.meaning.cxx_types import CArray, Pointer, RecordType, components
from ktc.ir.frontend.meaning.name_meanings import PackVal
from ktc.ir.frontend.meaning.values import Value
from ktc.ir.frontend.syntax.program import Entity
from ktc.ir.frontend.syntax.type_text import parameter_texts, same_types
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import i32
from ktc.ir.types import Scalar, Type, Vec

from .host_templates import complete
from .kernel_choice import definition
from .kernel_names import Spelled, as_source, spelled
from .template_instances import template_value, written_type

BANK_ALIGN = 16
"""Parameters lie in a constant bank that begins at a multiple of this: what asks for more is aligned there, not in the
block."""


@dataclass(frozen=True)
class Slot:
    """Where the value of the kernel parameter ``name`` lies in the parameter block: ``size`` bytes from ``offset``.

    ``bits``: (first, count) of a bit-field in them. ``inline``: the parameter is a buffer and its content is here.
    """

    name: str
    offset: int
    size: int
    type: Type
    bits: tuple[int, int] | None = None
    inline: bool = False


@dataclass(frozen=True)
class Instance:
    """A kernel as it was launched, and the places of its parameters' values."""

    kernel: Kernel
    slots: tuple[Slot, ...]


def instance(
    unit: Unit,
    kernel: str,
    parameters: Sequence[tuple[int, int]],
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared: int,
) -> Instance:
    """The kernel of ``unit`` that a program launched as ``kernel`` (demangled) with ``parameters`` (offset, bytes).

    Raises:
        KtcError: E-KERNEL-UNKNOWN where the file has none of that name, E-CAPTURE-MISMATCH where parameters are of
            other sizes, E-CAPTURE-NAME for template arguments that are not understood; what lowering the kernel raises.
    """
    wanted = spelled(kernel)
    same = [e for e in unit.program.kernels if e.name == wanted.name]
    if not same:
        error = unit.program.bad_function(wanted.name)
        raise error or KtcError("E-KERNEL-UNKNOWN", f"no kernel '{wanted.name}' in {unit.file}", exit_code=2)
    inside = [e for e in same if e.namespace[-len(wanted.namespace) :] == wanted.namespace]
    lowering = unit.lowering()
    trouble: KtcError | None = None
    fitting: list[tuple[Entity, dict[str, Value], tuple[Slot, ...]]] = []
    for entity in inside or (same if len(same) == 1 else []):
        try:
            bindings = _bindings(lowering, entity, wanted)
            entity, bindings = definition(lowering, entity, bindings)
            fitting.append((entity, bindings, tuple(_slots(lowering, entity, bindings, parameters))))
        except KtcError as e:
            trouble = trouble or e
    if len(fitting) > 1:
        fitting = [f for f in fitting if _takes(lowering, f[0], f[1], wanted)]
    if len(fitting) != 1:
        what = f"which of the {len(same)} kernels '{wanted.name}' of {unit.file} is '{kernel}' cannot be told"
        raise trouble or KtcError("E-CAPTURE-NAME", what, _place(same[0]))
    ((entity, bindings, slots),) = fitting
    sizes = [tuple(map(i32, dims)) for dims in (grid, block)]
    launch = Launch(sizes[0], sizes[1], i32(shared) if shared else None)  # type: ignore[arg-type]
    return Instance(lowering.lower(entity, bindings, lowering.parameters(entity, bindings), launch), slots)


def written(unit: Unit, kernel: str) -> tuple[str, dict[str, str]]:
    """How a source's reader is asked for what a program launched as ``kernel`` (demangled): the name, with namespaces
    and, where several kernels are called so, parameters; and the template arguments by parameter.

    Raises:
        KtcError: E-KERNEL-UNKNOWN, E-CAPTURE-NAME as :func:`instance`.
    """
    wanted = spelled(kernel)
    same = [e for e in unit.program.kernels if e.name == wanted.name]
    inside = [e for e in same if e.namespace[-len(wanted.namespace) :] == wanted.namespace] or same
    if not inside:
        raise KtcError("E-KERNEL-UNKNOWN", f"no kernel '{wanted.name}' in {unit.file}", exit_code=2)
    args = wanted.args or ()
    params = next((e.params or () for e in inside if len(e.params or ()) == len(args)), inside[0].params or ())
    if any(p.pack for p in params) or len(args) > len(params):
        raise KtcError("E-CAPTURE-NAME", f"the template arguments of '{kernel}' cannot be named one by one")
    name = "::".join((*inside[0].namespace, wanted.name))
    if len(inside) > 1 and wanted.params is not None:
        name += f"({', '.join(map(as_source, wanted.params))})"
    return name, {p.name: as_source(a) for p, a in zip(params, args)}


def _takes(lowering: KernelLowering, entity: Entity, bindings: dict[str, Value], wanted: Spelled) -> bool:
    """Whether the parameters of ``entity`` have the types that the demangled name says."""
    if wanted.params is None or same_types(parameter_texts(entity.node), wanted.params):
        return wanted.params is not None
    with lowering.scoped(namespace=entity.namespace) as scope:
        scope.names.update(bindings)
        own = [lowering.parameter_type(p) for p in params_of(entity.node)]
        try:
            said = [written_type(lowering, as_source(p)) for p in wanted.params]
        except KtcError:
            return False
    return [_seen(t) for t in own] == [_seen(t) for t in said]


def _seen(t: Type) -> Type:
    """A parameter's type as the name of its function has it."""
    return dataclasses.replace(t, restrict=False) if isinstance(t, Pointer) else t


def _bindings(lowering: KernelLowering, entity: Entity, wanted: Spelled) -> dict[str, Value]:
    params, args = entity.params or (), wanted.args or ()
    fixed = len(params) - any(p.pack for p in params)
    if any(p.pack for p in params[:-1]):
        raise KtcError("E-CAPTURE-NAME", f"'{entity.name}' has a template parameter pack before others", _place(entity))
    if len(args) < fixed or (len(args) > fixed and fixed == len(params)):
        raise KtcError("E-CAPTURE-MISMATCH", f"'{entity.name}' has {len(params)} template parameters; the program "
                       f"launched it with {len(args)}", _place(entity))  # fmt: skip
    values = [(params[min(i, len(params) - 1)].name, as_source(a)) for i, a in enumerate(args)]
    known = [template_value(lowering, entity, name, a) for name, a in values]
    given: dict[str, Value] = {p.name: v for p, v in zip(params[:fixed], known)}
    if fixed < len(params):
        given[params[-1].name] = PackVal(tuple(known[fixed:]))
    bindings = complete(lowering, entity, given)
    assert bindings is not None
    return bindings


def _slots(
    lowering: KernelLowering, entity: Entity, bindings: dict[str, Value], parameters: Sequence[tuple[int, int]]
) -> Iterator[Slot]:
    nodes = params_of(entity.node)
    if len(nodes) != len(parameters) or any(map(is_pack, nodes)):
        raise KtcError("E-CAPTURE-MISMATCH", f"'{entity.name}' has {len(nodes)} parameters; the program launched it "
                       f"with {len(parameters)}", _place(entity))  # fmt: skip
    with lowering.scoped(namespace=entity.namespace) as scope:
        scope.names.update(bindings)
        end = 0
        for i, (node, (offset, size)) in enumerate(zip(nodes, parameters)):
            t = as_passed(lowering.parameter_type(node))
            own, align = lowering.layout(t, node)
            expected = -(-end // align) * align
            if size != own or not (offset == expected or (align > BANK_ALIGN and end <= offset < end + align)):
                name = getattr(node, "name", None) or f"number {i + 1}"
                raise KtcError("E-CAPTURE-MISMATCH", f"parameter {name} of '{entity.name}' has {own} bytes at offset "
                               f"{expected}; in the program it has {size} at {offset}", _place(entity))  # fmt: skip
            yield from _places(lowering, getattr(node, "name", None) or f"unnamed{i}", t, offset, node)
            end = offset + size


def _places(lowering: KernelLowering, name: str, t: Type, offset: int, node: Any) -> Iterator[Slot]:
    """The slots of a parameter, named as :meth:`Parameters.parameters` names what it makes of it."""
    size = lowering.layout(t, node)[0]
    parts = components(name, t)
    if parts is not None:
        yield from (Slot(part, offset + k * of.bytes, of.bytes, of) for k, (part, of) in enumerate(parts))
    elif isinstance(t, Pointer | Scalar | Vec):
        yield Slot(name, offset, size, t)
    elif isinstance(t, RecordType):
        for f in lowering.field_layout(t, node):
            inner = f"{name}_{f.name.replace('@', 'part')}"
            if f.bits is not None:
                yield Slot(inner, offset + f.offset, lowering.layout(f.type, node)[0], f.type, f.bits)
            else:
                yield from _places(lowering, inner, f.type, offset + f.offset, node)
    elif isinstance(t, CArray) and t.n is not None:
        if lowering._elements(t) > MAX_MEMBERS:
            yield Slot(name, offset, size, t, inline=True)
            return
        step = lowering.layout(t.elem, node)[0]
        for k in range(t.n):
            yield from _places(lowering, f"{name}_{k}", t.elem, offset + k * step, node)


def _place(entity: Entity) -> Loc:
    coord = entity.node.coord
    return Loc(coord.file, coord.line, coord.column or 1)


__all__ = ["Instance", "Slot", "Spelled", "instance", "spelled", "written"]
