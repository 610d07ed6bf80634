"""The expressions directly in a node, read and replaced: found by the types of the dataclass fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from operator import is_
from typing import Any, TypeVar

from ktc.ir.support.frozen import replaced

from .nodes import Acc, Expr, Level, Stmt

Node = TypeVar("Node", Expr, Stmt)

_LEAVES = frozenset({
    "str", "int", "bool", "Sym", "Sym | None", "Type", "Scalar", "Vec", "Body", "int | float | bool", "Loc | None",
    "tuple[str, ...]", "tuple[Sym, ...]", "frozenset[str]", "tuple[tuple[str, Sym], ...]",
})  # fmt: skip
"""Types of fields, as they are written, that hold no expressions."""

_SINGLE = frozenset({"Expr"})
_SEVERAL = frozenset({"tuple[Expr, ...]", "tuple[Expr, Expr]", "tuple[Expr, Expr, Expr]"})
_PERHAPS = frozenset({"Expr | None", "int | Expr", "int | Expr | None"})
"""Types of fields, as they are written, that hold one expression, several, or one or something else."""

_READERS: dict[type, Callable[[Any], list[Expr]]] = {}
_REBUILDERS: dict[type, Callable[[Any, Callable[[Expr], Expr]], Any]] = {}
"""Functions that list and that replace the expressions of a node, written for the fields of its class when the first
one is met: every traversal calls them at every node."""


def _kinds(cls: type) -> dict[str, str]:
    """The fields of ``cls`` that may hold expressions, with their types."""
    return {f.name: str(f.type) for f in dataclasses.fields(cls) if f.type not in _LEAVES}  # type: ignore[arg-type]


def _function(head: str, lines: list[str], **scope: Any) -> Any:
    exec(f"def {head}:\n    " + "\n    ".join(lines), scope)
    return scope[head[: head.index("(")]]


def _reader(cls: type) -> Callable[[Any], list[Expr]]:
    kinds = _kinds(cls)
    if all(kind in _SINGLE for kind in kinds.values()):
        lines = [f"return [{', '.join(f'node.{name}' for name in kinds)}]"]
    elif len(kinds) == 1 and {*kinds.values()} <= _SEVERAL:
        lines = [f"return [*node.{name}]" for name in kinds]
    else:
        lines = ["out = []", *(_reading(name, kind) for name, kind in kinds.items()), "return out"]
    read: Callable[[Any], list[Expr]] = _function("read(node)", lines, collect=_collect, Expr=Expr)
    return read


def _reading(name: str, kind: str) -> str:
    if kind in _SINGLE:
        return f"out.append(node.{name})"
    if kind in _SEVERAL:
        return f"out += node.{name}"
    if kind in _PERHAPS:
        return f"if isinstance(node.{name}, Expr): out.append(node.{name})"
    return f"collect(node.{name}, out)"


def _rebuilder(cls: type) -> Callable[[Any, Callable[[Expr], Expr]], Any]:
    kinds = _kinds(cls)
    if not kinds:
        return lambda node, f: node
    lines = [f"{name} = {_rebuilding(name, kind)}" for name, kind in kinds.items()]
    lines.append(f"if {' and '.join(f'{name} is node.{name}' for name in kinds)}: return node")
    given = [f"{f.name}={f.name if f.name in kinds else f'node.{f.name}'}" for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    lines.append(f"return cls({', '.join(given)})")
    rebuild: Callable[[Any, Callable[[Expr], Expr]], Any] = _function(
        "rebuild(node, f)", lines, cls=cls, several=_several, mapped=_mapped, Expr=Expr
    )
    return rebuild


def _rebuilding(name: str, kind: str) -> str:
    if kind in _SINGLE:
        return f"f(node.{name})"
    if kind in _SEVERAL:
        return f"several(node.{name}, f)"
    if kind in _PERHAPS:
        return f"f(node.{name}) if isinstance(node.{name}, Expr) else node.{name}"
    return f"mapped(node.{name}, f)"


def children(node: Expr | Stmt) -> list[Expr]:
    """Expressions directly in ``node``, in evaluation order."""
    cls = type(node)
    read = _READERS.get(cls)
    if read is None:
        read = _READERS[cls] = _reader(cls)
    return read(node)


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
    cls = type(node)
    rebuild = _REBUILDERS.get(cls)
    if rebuild is None:
        rebuild = _REBUILDERS[cls] = _rebuilder(cls)
    return rebuild(node, f)  # type: ignore[no-any-return]


def with_operands(node: Node, operands: Iterable[Expr]) -> Node:
    """``node`` with ``operands``, as many as its :func:`children`, in their places."""
    given = iter(operands)
    return with_children(node, lambda _: next(given))


def _several(v: tuple[Expr, ...], f: Callable[[Expr], Expr]) -> tuple[Expr, ...]:
    new = [f(x) for x in v]
    return v if all(map(is_, v, new)) else tuple(new)


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


__all__ = ["children", "with_children", "with_operands"]
