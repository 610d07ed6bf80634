"""Calls in launch dimensions, as names: ``x.size(0)`` becomes ``x_size_0``, and ``blocks_for(n)`` ``blocks_for_n``.

What a method of a host object returns cannot be followed, nor what a function of another file does. As a name it is a
number that the launch depends on, the same at each mention: the kernel's parameter if the launch passes it, else a host
parameter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.syntax.cxx_ast import QualName
from ktc.ir.frontend.syntax.syntax_walk import children, replaced

ADDRESSES = frozenset({"data_ptr", "data", "mutable_data_ptr", "const_data_ptr", "get", "raw_pointer_cast"})
"""Functions that give the address of the object that they are called on, or with."""


def name_of_call(node: Any) -> str | None:
    """The name for ``object.member.method(constants)``; None for anything else."""
    if not isinstance(node, c_ast.FuncCall) or not isinstance(node.name, c_ast.StructRef):
        return None
    args = node.args.exprs if node.args is not None else []
    if not all(isinstance(a, c_ast.Constant) and a.value.isalnum() for a in args):
        return None
    base, parts = _member(node.name)
    return "_".join([base, *parts, *(a.value for a in args)]) if base else None


def function_of_call(node: Any) -> str:
    """The function's name in ``ns::function(arguments)``, '' for anything else."""
    callee = node.name if isinstance(node, c_ast.FuncCall) else None
    if isinstance(callee, c_ast.ID):
        return callee.name
    return callee.text.removeprefix("::") if isinstance(callee, QualName) else ""


def name_of_function_call(node: Any) -> str:
    """The name for ``function(arguments)``: of what is written there, so that two calls have one where they are spelled
    the same."""
    words = [function_of_call(node), *(_words(node.args) if node.args is not None else ())]
    return re.sub(r"\W+", "_", "_".join(w for w in words if w)).strip("_")


def _words(node: Any) -> Iterator[str]:
    """Names, numbers and words for operators, each operator before what it is applied to."""
    op = getattr(node, "op", "")
    yield node.name if isinstance(node, c_ast.ID) else node.value if isinstance(node, c_ast.Constant) else ""
    yield SIGNS.get(op, "op") if op else ""
    for x in children(node) if not isinstance(node, c_ast.ID) else ():
        yield from _words(x)


SIGNS = {"+": "plus", "-": "minus", "*": "times", "/": "by", "%": "mod"}


def name_of_member(node: Any) -> str | None:
    """The name for ``object.member``, ``object.member[2]``; None for anything else."""
    base, parts = _member(node)
    return "_".join([base, *parts]) if base and not all(map(str.isdigit, parts)) else None


def name_of_element(node: Any) -> str | None:
    """The name for ``array[2]``; None for anything else."""
    base, parts = _member(node)
    return "_".join([base, *parts]) if base and len(parts) == 1 and parts[0].isdigit() else None


def _member(base: Any) -> tuple[str, list[str]]:
    """The object's name and the members after it; '' for what is no such chain."""
    parts: list[str] = []
    while isinstance(base, c_ast.StructRef | c_ast.ArrayRef):
        if isinstance(base, c_ast.StructRef):
            step, fits = base.field, isinstance(base.field, c_ast.ID)
        else:
            step = base.subscript
            fits = isinstance(step, c_ast.Constant) and step.value.isdigit()
        if not fits:
            return "", []
        parts.append(step.name if isinstance(step, c_ast.ID) else step.value)
        base = base.name
    return (base.name, parts[::-1]) if isinstance(base, c_ast.ID) else ("", [])


def with_named_calls(
    node: Any,
    names: set[str],
    members: Container[str] = (),
    unknown: Callable[[Any], bool] = lambda _: False,
    elements: bool = False,
) -> Any:
    """A copy of an expression with names in the place of such calls, and of the ``members`` of structs that the kernel
    is passed; ``names`` gets them. ``unknown``: whether what a call of a function returns cannot be told; ``elements``:
    whether those of arrays get names too."""

    def named(n: Any) -> Any | None:
        name = name_of_call(n) or name_of_member(n) or (name_of_element(n) if elements else None)
        if name is None and function_of_call(n) and unknown(n):
            name = name_of_function_call(n)
        if name is None or not (isinstance(n, c_ast.FuncCall) or name in members or name_of_element(n)):
            return None
        names.add(name)
        return c_ast.ID(name, n.coord)

    return replaced(node, named)
