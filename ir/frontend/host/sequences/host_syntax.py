"""What is read off the syntax of host code alone: names of variables and of functions, what is a pointer."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.syntax.cxx_ast import CxxCast, NamePart, QualName, RefDecl
from ktc.ir.frontend.syntax.program import name_parts
from ktc.ir.frontend.syntax.syntax_walk import descendants


def uncast(node: Any) -> Any:
    """``node`` without conversions around it."""
    while isinstance(node, c_ast.Cast | CxxCast):
        node = node.expr
    return node


def path_of(node: Any) -> str | None:
    """A variable, a member or an element at a constant place, as one name; None for anything else."""
    node = uncast(node)
    if isinstance(node, c_ast.ID):
        return node.name
    if isinstance(node, QualName):
        return name_parts(node)[1]
    if isinstance(node, c_ast.StructRef) and isinstance(node.field, c_ast.ID):
        base = path_of(node.name)
        return node.field.name if base == "this" else f"{base}_at_{node.field.name}" if base else None
    if isinstance(node, c_ast.ArrayRef) and isinstance(node.subscript, c_ast.Constant):
        base = path_of(node.name)
        return f"{base}_at_{node.subscript.value}" if base else None
    return None


def called(node: c_ast.FuncCall) -> str:
    """The name of the function or method that is called, '' where it has none."""
    if isinstance(node.name, c_ast.StructRef):
        return node.name.field.name if isinstance(node.name.field, c_ast.ID) else name_parts(node.name.field)[1]
    return name_parts(node.name)[1] if isinstance(node.name, c_ast.ID | QualName) else ""


def is_pointer(declared: Any) -> bool:
    """Whether a declarator says that something is a pointer, or an array that is passed as one."""
    return isinstance(declared, c_ast.PtrDecl | c_ast.ArrayDecl) and not isinstance(declared, RefDecl)


def template_arguments(node: Any) -> frozenset[str]:
    """The names that stand in template arguments at or below ``node``: what they mean is known to the compiler."""
    parts = (n for n in descendants(node) if isinstance(n, NamePart) and n.args)
    return frozenset(x.name for part in parts for a in part.args for x in descendants(a) if isinstance(x, c_ast.ID))


def behind_address(node: Any) -> Any:
    """``x`` of ``(void**)&x``."""
    node = uncast(node)
    return node.expr if isinstance(node, c_ast.UnaryOp) and node.op == "&" else node


__all__ = ["behind_address", "called", "is_pointer", "path_of", "template_arguments", "uncast"]
