"""Which of several kernels of one name is taken where the name is all that a user gave: overloads that are one kernel
for several types of elements, ``clip(float*, float)`` beside ``clip(double*, double)``, as the one for ``float``, and
as the template where others are written out for one type, ``clip(T*, T)`` beside ``clip(half*, half)``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ktc.ir.diagnostics import KtcError

from .entry_points import deep_recursion, parse_unit
from .host.kernel_choice import label, named
from .host.kernel_names import spelled
from .syntax.program import Entity
from .syntax.type_text import parameter_texts

USUAL = "float"

ELEMENTS = frozenset({
    USUAL, "double", "half", "__half", "__nv_bfloat16", "nv_bfloat16", "int", "unsigned int", "long", "long long",
    "int32_t", "uint32_t", "int64_t", "uint64_t", "int16_t", "uint16_t", "int8_t", "uint8_t",
})  # fmt: skip
"""Types of elements, as sources write them."""

_QUALIFIERS = re.compile(r"\b(?:const|volatile)\b|[*&]")


def usual_overload(
    path: str,
    kernel: str,
    *,
    defines: Mapping[str, object] | None = None,
    include_dirs: tuple[str, ...] = (),
    dialect: str | None = None,
) -> tuple[str, tuple[str, ...]] | None:
    """What asks for the one of the kernels called ``kernel`` that is for ``float``, or for any type, and what asks for
    each other; None where they differ in more than the type of their elements."""
    with deep_recursion(path):
        unit = parse_unit(path, None, defines, include_dirs, dialect=dialect)
        try:
            found = named(unit.program, spelled(kernel))
        except KtcError:
            return None
        usual = _for_floats(found)
        if usual is None:
            return None
        names = {id(e): label(unit.program, e) for e in found}
        return names[id(usual)], tuple(names[id(e)] for e in found if e is not usual)


def _for_floats(found: Sequence[Entity]) -> Entity | None:
    """The one of ``found`` that all others are like, with another type in the place of ``float``, or of a type that is
    its template parameter."""
    alike = (e for e in found if all(e is other or _differ_in_elements(e, other) for other in found))
    return next(alike, None)


def _differ_in_elements(usual: Entity, other: Entity) -> bool:
    """Whether ``other`` is ``usual`` with one other type of elements throughout."""
    of = _type_replaced(usual, other)
    if usual.namespace != other.namespace or of is None:
        return False
    own, others = parameter_texts(usual.node), parameter_texts(other.node)
    changed = [(a, b) for a, b in zip(own, others) if a != b]
    elements = {_element(b) for _, b in changed}
    if len(own) != len(others) or len(elements) != 1 or not elements <= ELEMENTS - {USUAL}:
        return False
    (element,) = elements
    return all(_element(a) == of and re.sub(rf"\b{of}\b", element, a) == b for a, b in changed)


def _type_replaced(usual: Entity, other: Entity) -> str | None:
    """The type in ``usual`` that ``other`` may have another one for: ``float`` where both are templates of the same
    parameters or none is; the one that ``usual`` alone leaves open, ``T`` of ``clip(T*, T)`` beside ``clip(half*,
    half)``. None where they are templates in different ways."""
    own, others = ([(p.name, p.kind) for p in e.params or ()] for e in (usual, other))
    if own == others:
        return USUAL
    open_ = [name for name, kind in own if kind == "type"]
    return open_[0] if len(open_) == 1 and [p for p in own if p[0] != open_[0]] == others else None


def _element(text: str) -> str:
    """The type that pointers of a parameter, or the parameter itself, are of."""
    return _QUALIFIERS.sub("", text).strip()


__all__ = ["usual_overload"]
