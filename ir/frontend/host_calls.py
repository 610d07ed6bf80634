"""Calls of methods of host objects in launch dimensions, as names: ``x.size(0)`` becomes ``x_size_0``.

What such a call returns cannot be followed. As a name it is a number that the launch depends on, the same at each
mention: the kernel's parameter if the launch passes it, else a host parameter.
"""

from __future__ import annotations

import copy
from typing import Any

from pycparser import c_ast

from .cxx_ast import CxxNode


def name_of_call(node: Any) -> str | None:
    """The name for ``object.member.method(constants)``; None for anything else."""
    if not isinstance(node, c_ast.FuncCall) or not isinstance(node.name, c_ast.StructRef):
        return None
    args = node.args.exprs if node.args is not None else []
    if not all(isinstance(a, c_ast.Constant) and a.value.isalnum() for a in args):
        return None
    parts = [a.value for a in reversed(args)]
    base = node.name
    while isinstance(base, c_ast.StructRef):
        if not isinstance(base.field, c_ast.ID):
            return None
        parts.append(base.field.name)
        base = base.name
    return "_".join([base.name, *reversed(parts)]) if isinstance(base, c_ast.ID) else None


def with_named_calls(node: Any, names: set[str]) -> Any:
    """A copy of an expression with names in the place of such calls; ``names`` gets them."""
    if isinstance(node, list | tuple):
        return type(node)(with_named_calls(n, names) for n in node)
    if not isinstance(node, c_ast.Node):
        return node
    name = name_of_call(node)
    if name is not None:
        names.add(name)
        return c_ast.ID(name, node.coord)
    out = copy.copy(node)
    fields = node._fields if isinstance(node, CxxNode) else node.__slots__
    for field in (f for f in fields if f not in ("coord", "__weakref__")):
        setattr(out, field, with_named_calls(getattr(node, field), names))
    return out
