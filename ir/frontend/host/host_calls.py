"""Calls of methods of host objects in launch dimensions, as names: ``x.size(0)`` becomes ``x_size_0``.

What such a call returns cannot be followed. As a name it is a number that the launch depends on, the same at each
mention: the kernel's parameter if the launch passes it, else a host parameter.
"""

from __future__ import annotations

import copy
from collections.abc import Container
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.syntax.cxx_ast import CxxNode


def name_of_call(node: Any) -> str | None:
    """The name for ``object.member.method(constants)``; None for anything else."""
    if not isinstance(node, c_ast.FuncCall) or not isinstance(node.name, c_ast.StructRef):
        return None
    args = node.args.exprs if node.args is not None else []
    if not all(isinstance(a, c_ast.Constant) and a.value.isalnum() for a in args):
        return None
    base, parts = _member(node.name)
    return "_".join([base, *parts, *(a.value for a in args)]) if base else None


def name_of_member(node: Any) -> str | None:
    """The name for ``object.member``; None for anything else."""
    base, parts = _member(node)
    return "_".join([base, *parts]) if base and parts else None


def _member(base: Any) -> tuple[str, list[str]]:
    """The object's name and the members after it; '' for what is no such chain."""
    parts: list[str] = []
    while isinstance(base, c_ast.StructRef):
        if not isinstance(base.field, c_ast.ID):
            return "", []
        parts.append(base.field.name)
        base = base.name
    return (base.name, parts[::-1]) if isinstance(base, c_ast.ID) else ("", [])


def with_named_calls(node: Any, names: set[str], members: Container[str] = ()) -> Any:
    """A copy of an expression with names in the place of such calls, and of the ``members`` of structs that the kernel
    is passed; ``names`` gets them."""
    if isinstance(node, list | tuple):
        return type(node)(with_named_calls(n, names, members) for n in node)
    if not isinstance(node, c_ast.Node):
        return node
    name = name_of_call(node) or name_of_member(node)
    if name is not None and (isinstance(node, c_ast.FuncCall) or name in members):
        names.add(name)
        return c_ast.ID(name, node.coord)
    out = copy.copy(node)
    fields = node._fields if isinstance(node, CxxNode) else node.__slots__
    for field in (f for f in fields if f not in ("coord", "__weakref__")):
        setattr(out, field, with_named_calls(getattr(node, field), names, members))
    return out
