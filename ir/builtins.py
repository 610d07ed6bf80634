"""The table of built-in device functions (``builtins.txt``): one row a function, read once, on first use."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

from .types import SCALARS, VOID, Type, Vec

GENERIC = frozenset("FHITACUR")
"""Type letters that are deduced from the arguments; see the heads of ``builtins.txt`` and ``opencl.txt``."""


@dataclass(frozen=True)
class Param:
    """A parameter: a type or a generic letter; ``pointer`` for ``T*``; ``default`` an integer or None."""

    type: Type | str
    pointer: bool = False
    default: int | None = None


@dataclass(frozen=True)
class Builtin:
    """A row: ``name(params) -> ret`` means ``kind arg`` (see the head of ``builtins.txt``)."""

    name: str
    ret: Type | str
    params: tuple[Param, ...]
    kind: str
    arg: str = ""

    @property
    def required(self) -> int:
        """Number of parameters without a default."""
        return sum(p.default is None for p in self.params)


ANY_ARGUMENTS = frozenset({"ignore", "trap", "body", "simd", "first", "move", "forward"})
"""Kinds of rows that take whatever they are given."""


def lookup(name: str, dialect: tuple[str, ...] = ()) -> tuple[Builtin, ...]:
    """The rows of ``name`` (overloads), empty if it is no built-in. Tables of a ``dialect`` go before CUDA's."""
    for file in dialect:
        if name in (rows := table(os.path.join("frontend", "dialects", file))):
            return rows[name]
    return table().get(name, ())


@cache
def table(file: str = "builtins.txt") -> dict[str, tuple[Builtin, ...]]:
    """A whole table, by spelling."""
    rows: dict[str, list[Builtin]] = {}
    path = os.path.join(os.path.dirname(__file__), file)
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            try:
                names, signature, meaning = (part.strip() for part in line.split("|"))
                ret, params = signature.rstrip(")").split("(")
                kind, _, arg = meaning.partition(" ")
                parsed = tuple(_param(p.strip()) for p in params.split(",") if p.strip())
                result = _type(ret.strip())
            except (ValueError, KeyError) as e:
                raise ValueError(f"{file}:{number}: malformed row: {line}") from e
            for name in names.split(","):
                rows.setdefault(name.strip(), []).append(Builtin(name.strip(), result, parsed, kind, arg.strip()))
    return {name: tuple(found) for name, found in rows.items()}


def _param(text: str) -> Param:
    text, _, default = text.partition("=")
    return Param(_type(text.rstrip("*")), text.endswith("*"), int(default) if default else None)


def _type(text: str) -> Type | str:
    if text in GENERIC:
        return text
    if text == "void":
        return VOID
    elem, x, n = text.rpartition("x")
    return Vec(SCALARS[elem], int(n)) if x else SCALARS[text]
