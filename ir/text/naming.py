"""Symbols to names and back to identities: unique names for printing, canonical ids for comparing."""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections.abc import Callable
from typing import Any

from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, Const, Stmt, Sym
from ktc.ir.support.frozen import replaced
from ktc.ir.support.memo import by_identity
from ktc.ir.types import Scalar, Type

_FIELDS: dict[type, tuple[str, ...]] = {Scalar: ()}
"""The fields of a node's class that make a program what it is, and in which there may be symbols."""

_WITHOUT = frozenset({
    "bool", "int", "str", "int | None", "int | float | bool", "Scalar", "frozenset[str]", "tuple[int, ...]",
    "tuple[int | float | bool, ...]", "tuple[int | None, int | None]", "tuple[str, str]", "tuple[tuple[str, str], ...]",
})  # fmt: skip
"""Types of fields, as they are written, that hold no symbols."""


def fields_of(cls: type) -> tuple[str, ...]:
    found = _FIELDS.get(cls)
    if found is None:
        fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
        found = _FIELDS[cls] = tuple(f.name for f in fields if f.compare and f.type not in _WITHOUT)
    return found


def symbols(root: Any) -> tuple[Sym, ...]:
    """The symbols below ``root`` (kernel, body, expression...) in the order of their first appearance, field by field,
    types included: each object once, of which several may be one symbol."""
    found: dict[int, Sym] = {}
    stack = [root]
    while stack:
        v = stack.pop()
        kind = type(v)
        if kind is Sym:
            if id(v) not in found:
                found[id(v)] = v
                if type(v.type) is not Scalar:
                    stack.append(v.type)
        elif kind is tuple:
            stack += v[::-1]
        elif (names := fields_of(kind)) and v is not root and isinstance(v, Stmt):
            for s in _in_statement(v):
                found.setdefault(id(s), s)
        else:
            for name in names[::-1]:
                stack.append(getattr(v, name))
    return tuple(found.values())


@by_identity(4096)
def _in_statement(s: Stmt) -> tuple[Sym, ...]:
    """The symbols below a statement: passes leave most statements of a kernel as they were."""
    return symbols(s)


def unique_names(root: Kernel | Body | object) -> dict[Sym, str]:
    """A name for every symbol below ``root``: the first of several with one name keeps it, the rest get ``_1``, ``_2``.

    These names are what the text form shows, and what a pipeline script's places (``loop:i_1``) refer to. Where names
    are settled (``stable_names.named_apart``) they are the symbols' own.
    """
    order = list(dict.fromkeys(symbols(root)))
    names: dict[Sym, str] = {}
    taken: set[str] = set()
    for s in order:
        if s.name not in taken:
            names[s] = s.name
            taken.add(s.name)
    for s in order:
        if s in names:
            continue
        n = 1
        while f"{s.name}_{n}" in taken:
            n += 1
        names[s] = f"{s.name}_{n}"
        taken.add(names[s])
    return names


def canonical(kernel: Kernel) -> Kernel:
    """``kernel`` with symbol ids renumbered by first appearance, so that ``==`` is structural equality.

    A canonical id also carries a checksum of the symbol's declared type, since symbols compare by id alone. NaNs become
    one object, for the same reason. Places, comments, tags, the trace and names take no part.
    """
    ids: dict[Sym, Sym] = {}

    def on_sym(s: Sym) -> Sym:
        if s not in ids:
            number = len(ids) + 1
            ids[s] = s  # an array's own shape may not mention it; this only stops a cycle
            ty = _rebuild(s.type, on_sym)
            assert isinstance(ty, Type)
            ids[s] = Sym(s.name, ty, (number << 32) | zlib.crc32(repr(ty).encode()), s.stem)
        return ids[s]

    result = _rebuild(kernel, on_sym)
    assert isinstance(result, Kernel)
    return result


def _rebuild(v: Any, on_sym: Callable[[Sym], Sym]) -> object:
    if isinstance(v, Sym):
        return on_sym(v)
    if isinstance(v, tuple):
        return tuple(_rebuild(x, on_sym) for x in v)
    if isinstance(v, Const):
        value = math.nan if isinstance(v.value, float) and math.isnan(v.value) else v.value
        return Const(value, v.ty)
    names = fields_of(type(v))
    return replaced(v, {n: _rebuild(getattr(v, n), on_sym) for n in names}) if names else v
