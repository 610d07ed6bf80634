"""What of a file can stand for a template parameter by how a kernel uses it: ``P::member``, or a call of ``p``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.library.device_libraries import in_library
from ktc.ir.frontend.meaning.methods import params_of
from ktc.ir.frontend.syntax.cxx_ast import NamePart, QualName
from ktc.ir.frontend.syntax.program import Entity, Program, functions_of
from ktc.ir.frontend.syntax.syntax_walk import descendants

MAX_NAMES = 6
"""Classes or functions that are tried for one parameter."""


def classes_asked_for(program: Program, kernel: Entity, parameter: str) -> list[str]:
    """Classes of the file, no templates, that have every member that ``kernel`` names of its type ``parameter``."""
    wanted = {n.parts[1].name for n in _qualified(program, kernel) if n.parts[0].name == parameter}
    if not wanted:
        return []
    found = [
        "::".join((*e.namespace, e.name))
        for entities in program.records.values() for e in entities
        if e.params is None and e.spec_args is None and _own(e) and wanted <= _member_names(program, e)
    ]  # fmt: skip
    return found[:MAX_NAMES]


def functions_asked_for(program: Program, kernel: Entity, parameter: str) -> list[str]:
    """Functions of the file, no templates, that take as many arguments as ``kernel`` calls ``parameter`` with."""
    calls = [n for n in nodes_of(program, kernel) if isinstance(n, c_ast.FuncCall) and _names(n.name, parameter)]
    if not calls:
        return []
    count = len(calls[0].args.exprs) if calls[0].args is not None else 0
    found = [
        "::".join((*e.namespace, e.name))
        for entities in program.functions.values() for e in entities
        if e.params is None and e.spec_args is None and _own(e) and not e.is_kernel
        and "__device__" in e.node.specs and len(params_of(e.node)) == count
    ]  # fmt: skip
    return list(dict.fromkeys(found))[:MAX_NAMES]


def nodes_of(program: Program, kernel: Entity) -> Iterator[Any]:
    """The syntax of a kernel's body; of one that is only declared, that of its specialisations."""
    bodies = [kernel.node.body]
    if bodies == [None]:
        found = [e for e in program.functions[kernel.name] if e.is_kernel and e.namespace == kernel.namespace]
        bodies = [e.node.body for e in found if e.node.body is not None]
    for body in bodies:
        yield from descendants(body)


def _qualified(program: Program, kernel: Entity) -> Iterator[QualName]:
    for n in nodes_of(program, kernel):
        if isinstance(n, QualName) and len(n.parts) > 1:
            yield n


def _names(node: Any, name: str) -> bool:
    return isinstance(node, c_ast.ID | NamePart) and node.name == name


def _own(e: Entity) -> bool:
    return not in_library(getattr(e.node.coord, "file", ""))


def _member_names(program: Program, e: Entity) -> set[str]:
    members = program.members(e)
    typed = {x.name for x in (*members.aliases, *members.enums)} | set(members.classes)
    return {*typed, *(v for v in members.variables if v), *(f.name for f, _ in functions_of(e.node.items))}
