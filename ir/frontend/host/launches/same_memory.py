"""Buffers for which a launch passes the same memory: ``scale<<<grid, block>>>(x, x, n)`` works in place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.host.host_calls import ADDRESSES, name_of_member
from ktc.ir.frontend.syntax.cxx_ast import CxxCast, QualName
from ktc.ir.frontend.syntax.program import name_parts
from ktc.ir.kernel import Param
from ktc.ir.types import Ptr

STEPS = 8
"""Most variables that are looked behind, from one to the next."""


def same_memory(pairs: Iterable[tuple[Param, Any]], env: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """The names of buffers that get one pointer, in groups. ``pairs``: parameters with what is passed for each;
    ``env``: what host code knows of its variables at the launch."""
    groups: dict[str, list[str]] = {}
    for p, a in pairs:
        if isinstance(p.sym.type, Ptr) and (memory := memory_of(a, env)) is not None:
            groups.setdefault(memory, []).append(p.sym.name)
    return tuple(tuple(names) for names in groups.values() if len(names) > 1)


def memory_of(a: Any, env: Mapping[str, Any]) -> str | None:
    """A name for the memory that the pointer ``a`` points to; None where the text does not say."""
    for _ in range(STEPS):
        if isinstance(a, c_ast.Cast | CxxCast):
            a = a.expr
        elif isinstance(a, c_ast.FuncCall) and isinstance(a.name, c_ast.StructRef) and _method(a.name) in ADDRESSES:
            a = a.name.name
        elif isinstance(a, c_ast.ID) and _value(env.get(a.name)) is not None:
            a = _value(env[a.name])
        else:
            break
    if isinstance(a, c_ast.ID):
        return a.name if a.name not in ("nullptr", "NULL") else None
    return name_of_member(a)


def _method(a: c_ast.StructRef) -> str:
    return name_parts(a.field)[1] if isinstance(a.field, c_ast.ID | QualName) else ""


def _value(known: Any) -> Any:
    """What a variable holds: another variable, a cast of one, or what a method returns."""
    held = known.init if isinstance(known, c_ast.Decl) else known
    return held if isinstance(held, c_ast.ID | c_ast.Cast | CxxCast | c_ast.FuncCall | c_ast.StructRef) else None


__all__ = ["memory_of", "same_memory"]
