"""The instance of a kernel that a compiled program launched: from its demangled name, and where its arguments are.

A capture knows a kernel by its C++ name (``void ns::scale<float, 4>(float*, int)``) and by the offsets and sizes of its
parameters. Both must agree with what the source says, else nothing is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ktc.ir.diagnostics import KtcError, Loc
from ktc.ir.frontend.entry_points import Unit
from ktc.ir.frontend.lowering.calls.inline import params_of
from ktc.ir.frontend.lowering.declarations.parameters import MAX_MEMBERS, is_pack
from ktc.ir.frontend.lowering.lower_kernel import KernelLowering
from ktc.ir.frontend.meaning.cxx_types import CArray, Pointer, RecordType
from ktc.ir.frontend.meaning.values import Value
from ktc.ir.frontend.syntax.program import Entity
from ktc.ir.kernel import Kernel, Launch
from ktc.ir.nodes import i32
from ktc.ir.types import Scalar, Type, Vec

from .host_templates import complete
from .template_instances import template_value

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


@dataclass(frozen=True)
class Spelled:
    """A demangled name in parts; ``args`` is None where it has no template arguments."""

    namespace: tuple[str, ...]
    name: str
    args: tuple[str, ...] | None


def spelled(text: str) -> Spelled:
    """``void a::b<int, 3>(float*)`` in its parts.

    Raises:
        KtcError: E-CAPTURE-NAME, it is no function's name.
    """
    depth, start, parts, args = 0, 0, [], None
    text = text.removeprefix("void ").replace("(anonymous namespace)::", "")
    for i, c in enumerate(text):
        if c == "<" or (c == "(" and depth):
            depth += 1
            if depth == 1:
                parts.append(text[start:i])
                start = i + 1
        elif c == ">" or (c == ")" and depth):
            depth -= 1
            if depth == 0:
                args, start = text[start:i], i + 1
        elif depth == 0 and (c == "(" or text.startswith("::", i)):
            if start < i:
                parts.append(text[start:i])
                args = None
            if c == "(":
                break
            start = i + 2
    else:
        parts += [text[start:]] if start < len(text) and depth == 0 else []
    if depth or not parts or not all(p.isidentifier() for p in parts):
        raise KtcError("E-CAPTURE-NAME", f"'{text}' is not a kernel's name that can be looked for in a source")
    return Spelled(tuple(parts[:-1]), parts[-1], None if args is None else tuple(_split(args)))


def _split(text: str) -> Iterator[str]:
    depth, part = 0, ""
    for c in text + "," if text else "":
        depth += (c in "<({[") - (c in ">)}]")
        if c == "," and depth == 0:
            yield part.strip()
            part = ""
        else:
            part += c


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
    named = [e for e in unit.program.kernels if e.name == wanted.name]
    named = [e for e in named if e.namespace[-len(wanted.namespace) :] == wanted.namespace] or named
    if not named:
        error = unit.program.bad_function(wanted.name)
        raise error or KtcError("E-KERNEL-UNKNOWN", f"no kernel '{wanted.name}' in {unit.file}", exit_code=2)
    lowering = unit.lowering()
    trouble: KtcError | None = None
    for entity in named:
        try:
            bindings = _bindings(lowering, entity, wanted)
            slots = tuple(_slots(lowering, entity, bindings, parameters))
        except KtcError as e:
            trouble = trouble or e
            continue
        sizes = [tuple(map(i32, dims)) for dims in (grid, block)]
        launch = Launch(sizes[0], sizes[1], i32(shared) if shared else None)  # type: ignore[arg-type]
        return Instance(lowering.lower(entity, bindings, lowering.parameters(entity, bindings), launch), slots)
    assert trouble is not None
    raise trouble


def _bindings(lowering: KernelLowering, entity: Entity, wanted: Spelled) -> dict[str, Value]:
    params, args = entity.params or (), wanted.args or ()
    if any(p.pack for p in params):
        raise KtcError("E-CAPTURE-NAME", f"'{entity.name}' has a template parameter pack", _place(entity))
    if len(params) != len(args):
        raise KtcError("E-CAPTURE-MISMATCH", f"'{entity.name}' has {len(params)} template parameters; the program "
                       f"launched it with {len(args)}", _place(entity))  # fmt: skip
    given = {p.name: template_value(lowering, entity, p.name, a) for p, a in zip(params, args)}
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
            t = lowering.parameter_type(node)
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
    if isinstance(t, Pointer | Scalar | Vec):
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


__all__ = ["Instance", "Slot", "Spelled", "instance", "spelled"]
