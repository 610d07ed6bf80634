"""The expressions directly in a node, read and replaced: found by the types of the dataclass fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter, is_
from typing import Any, TypeVar

from ktc.ir.support.frozen import replaced

from .nodes import Acc, Expr, Level, Stmt

Node = TypeVar("Node", Expr, Stmt)

_LEAVES = frozenset({
    "str", "int", "bool", "Sym", "Sym | None", "Type", "Scalar", "Vec", "Body", "int | float | bool", "Loc | None",
    "tuple[str, ...]", "tuple[Sym, ...]", "frozenset[str]", "tuple[tuple[str, Sym], ...]",
})  # fmt: skip
"""Types of fields, as they are written, that hold no expressions."""

_NAMES: dict[type, tuple[str, ...]] = {}
"""Names of the fields that may hold expressions, by class: asked for on every step of every traversal."""

_OPERANDS: dict[type, Callable[[Any], list[Expr]]] = {}
"""Of classes whose fields hold one expression each, if they hold any: how to read them all at once."""


def _names(cls: type) -> tuple[str, ...]:
    found = _NAMES.get(cls)
    if found is None:
        fields = [f for f in dataclasses.fields(cls) if f.type not in _LEAVES]  # type: ignore[arg-type]
        found = _NAMES[cls] = tuple(f.name for f in fields)
        if all(f.type == "Expr" for f in fields):
            _OPERANDS[cls] = _reader(found)
    return found


def _reader(names: tuple[str, ...]) -> Callable[[Any], list[Expr]]:
    if not names:
        return lambda node: []
    read: Callable[[Any], Any] = attrgetter(*names)
    return (lambda node: [*read(node)]) if len(names) > 1 else lambda node: [read(node)]


def children(node: Expr | Stmt) -> list[Expr]:
    """Expressions directly in ``node``, in evaluation order."""
    read = _OPERANDS.get(type(node))
    if read is not None:
        return read(node)
    out: list[Expr] = []
    for name in _names(type(node)):
        v = getattr(node, name)
        if isinstance(v, Expr):
            out.append(v)
        elif v is not None and not isinstance(v, int):
            _collect(v, out)
    return out


def _collect(v: object, out: list[Expr]) -> None:
    """Append the expressions in the value of a field."""
    if isinstance(v, Expr):
        out.append(v)
    elif isinstance(v, tuple):
        for x in v:
            _collect(x, out)
    elif isinstance(v, Level):
        if v.n is not None:
            out.append(v.n)
    elif isinstance(v, Acc):
        out += (v.init, v.value)


def with_children(node: Node, f: Callable[[Expr], Expr]) -> Node:
    """``node`` with ``f`` applied to each of its :func:`children`; ``node`` itself if none changes."""
    changes = {}
    cls = type(node)
    names = _names(cls)
    if cls in _OPERANDS:
        for name in names:
            x = getattr(node, name)
            y = f(x)
            if y is not x:
                changes[name] = y
        return replaced(node, changes) if changes else node
    for name in names:
        v = getattr(node, name)
        if v is None or isinstance(v, int):
            continue
        w = f(v) if isinstance(v, Expr) else _mapped(v, f)
        if w is not v:
            changes[name] = w
    return replaced(node, changes) if changes else node


def _mapped(v: Any, f: Callable[[Expr], Expr]) -> Any:
    """The value of a field with ``f`` applied to the expressions in it; ``v`` itself if none changes."""
    if isinstance(v, Expr):
        return f(v)
    if isinstance(v, tuple):
        new = [_mapped(x, f) for x in v]
        return v if all(map(is_, v, new)) else tuple(new)
    if isinstance(v, Level) and v.n is not None:
        n = f(v.n)
        return v if n is v.n else replaced(v, {"n": n})
    if isinstance(v, Acc):
        init, value = f(v.init), f(v.value)
        return v if init is v.init and value is v.value else replaced(v, {"init": init, "value": value})
    return v


__all__ = ["children", "with_children"]
