"""The types of parameters as they are written, in one spelling: ``float const  *`` is ``const float*``."""

from __future__ import annotations

import re
from typing import Any

from pycparser import c_ast

from .cxx_ast import AutoType, Function, NamedType, RefDecl


def parameter_texts(fn: Function) -> tuple[str, ...]:
    """The types of a function's parameters; those that a caller does not see differ are one: ``int`` and ``const int``,
    ``float x[4]`` and ``float* x``."""
    params = fn.decl.type.args.params if fn.decl.type.args else []
    return tuple("..." if isinstance(p, c_ast.EllipsisParam) else type_text(p.type, top=True) for p in params)


def type_text(node: Any, top: bool = False) -> str:
    """The type that a declarator's syntax says; ``top``: it is a parameter's, and its own qualifiers say nothing."""
    if isinstance(node, c_ast.Typename | c_ast.Decl):
        return type_text(node.type, top)
    if isinstance(node, c_ast.TypeDecl):
        quals = [] if top else sorted(q for q in node.quals or [] if q in ("const", "volatile"))
        return " ".join([*quals, type_text(node.type)])
    if isinstance(node, RefDecl):
        return type_text(node.type) + ("&&" if node.rvalue else "&")
    if isinstance(node, c_ast.PtrDecl):
        inside = node.type
        if isinstance(inside, c_ast.FuncDecl):
            given = inside.args.params if inside.args else []
            return f"{type_text(inside.type)} (*)({', '.join(type_text(p.type, top=True) for p in given)})"
        return type_text(inside) + "*"
    if isinstance(node, c_ast.ArrayDecl):
        return type_text(node.type) + ("*" if top else f"[{_argument(node.dim) if node.dim is not None else ''}]")
    if isinstance(node, c_ast.IdentifierType):
        return " ".join(node.names)
    if isinstance(node, NamedType):
        return "::".join(map(_part, node.name.parts))
    return "auto" if isinstance(node, AutoType) else str(getattr(node, "name", None) or type(node).__name__)


def same_types(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Whether two lists of types are one, however they are spaced and whichever side of its type ``const`` stands."""
    return tuple(map(_plain, a)) == tuple(map(_plain, b))


def _plain(text: str) -> str:
    text = re.sub(r"\b(?:__restrict__|__restrict|restrict|struct|class|enum)\b", "", text)
    text = re.sub(r"([\w:]+)\s+const\b", r"const \1", text)  # float const* is const float*
    text = text if re.search(r"[*&]", text) else re.sub(r"\bconst\b", "", text)  # by value: callers do not see it
    return re.sub(r"\s+", " ", re.sub(r"\s*([^\w\s])\s*", r"\1", text)).strip()


def _part(part: Any) -> str:
    return part.name if part.args is None else f"{part.name}<{', '.join(map(_argument, part.args))}>"


def _argument(node: Any) -> str:
    if isinstance(node, c_ast.Typename):
        return type_text(node)
    if isinstance(node, c_ast.UnaryOp) and node.op == "-":
        return f"-{_argument(node.expr)}"
    return str(getattr(node, "value", None) or getattr(node, "text", None) or getattr(node, "name", None) or "...")
