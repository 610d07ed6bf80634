"""Which arguments a call may change: the positions that functions, methods, constructors and lambdas take by
reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from pycparser import c_ast

from ktc.ir.builtins import lookup
from ktc.ir.frontend.library.device_libraries import in_library

from .cxx_ast import Construct, CtorInit, Function, Lambda, NamedType, QualName, Record, RefDecl, Template, is_const

Positions: TypeAlias = Mapping[str, set[int]]

ANY = "*"
"""What a callable of unknown name may change: all that any lambda, call operator or function of the file may."""


BRACES = "{}"
"""Whether a class of the file has members that are references: braces may bind them to what they list."""


def is_mutable_reference(p: Any) -> bool:
    """Whether a parameter is a reference through which its argument can change."""
    return isinstance(p.type, RefDecl) and not is_const(p.type.type)


def reference_positions(program: Any) -> dict[str, set[int]]:
    """Positions by the name of the function, method or class (for its constructors), and for :data:`ANY`."""
    table: dict[str, set[int]] = {ANY: set()}
    for entities in program.functions.values():
        for e in entities:
            _note(table, e.name, e.node)
            if not e.node.passed_over and e.node.body is not None and not in_library(getattr(e.node.coord, "file", "")):
                _lambdas(table, program.telling(e.node))
    for entities in program.records.values():
        for e in entities:
            _record(table, e.node, program)
    return table


def _note(table: dict[str, set[int]], name: str, fn: Any) -> None:
    params = fn.decl.type.args.params if fn.decl.type.args else []
    found = {i for i, p in enumerate(params) if not isinstance(p, c_ast.EllipsisParam) and is_mutable_reference(p)}
    table.setdefault(name, set()).update(found)
    if not in_library(getattr(fn.coord, "file", "")):
        table[ANY] |= found


def _record(table: dict[str, set[int]], record: Record, program: Any) -> None:
    for item in record.items or []:
        for d in item.decl if isinstance(item, Template) else (item,):
            if isinstance(d, Function):
                _note(table, record.name if d.kind == "ctor" else d.name, d)
                if d.body is not None:
                    _lambdas(table, program.telling(d))
            elif isinstance(d, Record):
                _record(table, d, program)
            elif isinstance(d, c_ast.Decl) and is_mutable_reference(d):
                table[BRACES] = {0}


def _lambdas(table: dict[str, set[int]], nodes: list[Any]) -> None:
    for n in nodes:
        if type(n) is Lambda and n.params is not None:
            table[ANY] |= {i for i, p in enumerate(n.params.params) if hasattr(p, "type") and is_mutable_reference(p)}


def changed_by(node: Any, table: Positions) -> Iterator[Any]:
    """The argument expressions that a call or construction may change, and what a reference is bound to."""
    if BRACES in table:
        yield from _listed(node)
    if isinstance(node, c_ast.Decl) and node.init is not None:
        args = node.init.args if isinstance(node.init, CtorInit) else [node.init]
        if isinstance(node.type, RefDecl):
            if not is_const(node.type.type):
                yield from args
        elif isinstance(node.init, CtorInit):
            yield from _at(args, table.get(_type_name(node.type), ()))
        return
    if isinstance(node, Construct):
        yield from _at(node.args, table.get(_type_name(node.to_type), ()))
        return
    if not isinstance(node, c_ast.FuncCall) or node.args is None:
        return
    callee = node.name
    if isinstance(callee, c_ast.StructRef):
        field = callee.field
        name = field.name if isinstance(field, c_ast.ID) else field.parts[-1].name
        yield callee if callee.type == "->" else callee.name  # a method may change its object
    elif isinstance(callee, c_ast.ID | QualName):
        name = callee.name if isinstance(callee, c_ast.ID) else callee.parts[-1].name
    else:
        name = ANY
    known = table.get(name, () if lookup(name) else table.get(ANY, ()))
    yield from _at(node.args.exprs, known)


def _listed(node: Any) -> list[Any]:
    """What stands in the braces of a list, a construction or a declaration."""
    if isinstance(node, c_ast.InitList):
        return list(node.exprs)
    if isinstance(node, Construct):
        return list(node.args)
    init = node.init if isinstance(node, c_ast.Decl) else None
    return list(init.args) if isinstance(init, CtorInit) else []


def _at(args: Any, positions: Any) -> Iterator[Any]:
    for i, a in enumerate(args):
        if i in positions:
            yield a


def _type_name(node: Any) -> str:
    while hasattr(node, "type"):
        node = node.type
    return node.name.parts[-1].name if isinstance(node, NamedType) else ""
