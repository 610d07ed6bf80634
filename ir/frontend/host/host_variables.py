"""Variables beyond functions that the host sets: at file scope, an option, a size that the command line gives; of the
object whose method launches, the width of a layer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.syntax.cxx_ast import qualifiers
from ktc.ir.frontend.syntax.program import Program


def host_variables(program: Program) -> Iterator[tuple[str, Any]]:
    """The name and the declaration of each such variable, whatever its type, whose name no other has."""
    for name, entities in program.variables.items():
        decl = entities[0].node
        if len(entities) == 1 and isinstance(decl, c_ast.Decl) and not _is_fixed(decl):
            yield name, decl


def member_variables(members: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """The name and the declaration of each variable of every object among the ``members`` of a class: also of those
    that stay as a constructor makes them, ``const int heads_;``."""
    for m in members:
        variable = isinstance(m, c_ast.Decl) and m.name and not isinstance(m.type, c_ast.FuncDecl)
        if variable and (not _is_fixed(m) or (m.init is None and not m.storage)):
            yield m.name, m


def _is_fixed(decl: c_ast.Decl) -> bool:
    """Whether it is a constant, or a variable of the device."""
    words = [*(decl.storage or []), *(s for s in (decl.funcspec or []) if isinstance(s, str))]
    return "constexpr" in words or "const" in qualifiers(decl.type) or any(w.startswith("__") for w in words)


__all__ = ["host_variables", "member_variables"]
