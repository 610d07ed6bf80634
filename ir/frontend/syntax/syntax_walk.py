"""Walking the syntax tree: the children of a node, what is at or below it, and a copy with some of that replaced."""

from __future__ import annotations

import copy
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from pycparser import c_ast

from .cxx_ast import Asm, CxxNode, Function


def children(node: Any) -> list[Any]:
    """Child nodes, tuples in CUDA nodes included."""
    kind = type(node)
    if kind in _LEAVES:
        return []
    parts = _PARTS.get(kind)
    if parts is not None:
        return [c for c in parts(node) if isinstance(c, c_ast.Node)]
    if kind is Asm:
        return [e for _, e in (*node.outputs, *node.inputs) if e is not None]
    if kind is Function:
        return [*([node.body] if node.body is not None else []), *(a for _, args in node.inits for a in args)]
    return [c for c in node if isinstance(c, c_ast.Node)]


_LEAVES = frozenset({c_ast.ID, c_ast.Constant, c_ast.IdentifierType, c_ast.Break, c_ast.Continue})

_PARTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    c_ast.BinaryOp: attrgetter("left", "right"), c_ast.Assignment: attrgetter("lvalue", "rvalue"),
    c_ast.ArrayRef: attrgetter("name", "subscript"), c_ast.StructRef: attrgetter("name", "field"),
    c_ast.FuncCall: attrgetter("name", "args"), c_ast.TernaryOp: attrgetter("cond", "iftrue", "iffalse"),
    c_ast.If: attrgetter("cond", "iftrue", "iffalse"), c_ast.Cast: attrgetter("to_type", "expr"),
    c_ast.For: attrgetter("init", "cond", "next", "stmt"), c_ast.While: attrgetter("cond", "stmt"),
    c_ast.UnaryOp: lambda n: (n.expr,), c_ast.Return: lambda n: (n.expr,),
    c_ast.ExprList: lambda n: n.exprs or (), c_ast.Compound: lambda n: n.block_items or (),
}  # fmt: skip
"""The children of most nodes of a program, absent ones as None. They are asked for on every traversal."""


_NEUTRAL = frozenset({c_ast.BinaryOp, c_ast.ArrayRef, c_ast.ExprList, c_ast.Compound, c_ast.TernaryOp, c_ast.If})
"""Nodes with children that say nothing about variables themselves."""


def telling(root: Any) -> list[Any]:
    """The nodes at and below ``root`` that can say something about a variable, in no particular order."""
    found = []
    stack = [root]
    pop = stack.pop
    while stack:
        node = pop()
        kind = type(node)
        if kind in _LEAVES:
            continue
        parts = _PARTS.get(kind)
        if parts is not None:
            if kind not in _NEUTRAL:
                found.append(node)
            stack += parts(node)
        elif node is not None:
            found.append(node)
            stack += children(node)
    return found


def descendants(node: Any) -> list[Any]:
    """``node`` and all below it, in no particular order."""
    found = []
    stack = [node]
    while stack:
        n = stack.pop()
        found.append(n)
        stack += children(n)
    return found


def contains(node: Any, kinds: tuple[type, ...], stop: tuple[type, ...] = ()) -> bool:
    """Whether a node of ``kinds`` is at or below ``node``, not looking inside ``stop``."""
    stack = [node]
    while stack:
        n = stack.pop()
        if isinstance(n, kinds):
            return True
        stack.extend(c for c in children(n) if not isinstance(c, stop))
    return False


def replaced(node: Any, on: Callable[[Any], Any | None]) -> Any:
    """A copy of ``node`` with what ``on`` makes of nodes in their place; what it returns None for is kept.

    It is not asked about the names of members (``p`` in ``v.p``): they are no variables, whatever they are called.
    """
    if isinstance(node, list | tuple):
        return type(node)(replaced(n, on) for n in node)
    if not isinstance(node, c_ast.Node):
        return node
    new = on(node)
    if new is not None:
        return new
    out = copy.copy(node)
    is_member = isinstance(node, c_ast.StructRef) and isinstance(node.field, c_ast.ID)
    for field in (f for f in _fields(node) if not (is_member and f == "field")):
        setattr(out, field, replaced(getattr(node, field), on))
    return out


def alike(a: Any, b: Any) -> bool:
    """Whether two trees are written the same, wherever they stand."""
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(alike, a, b))
    if not isinstance(a, c_ast.Node):
        return bool(a == b)
    return type(a) is type(b) and all(alike(getattr(a, f), getattr(b, f)) for f in _fields(a))


def _fields(node: c_ast.Node) -> list[str]:
    fields = node._fields if isinstance(node, CxxNode) else node.__slots__
    return [f for f in fields if f not in ("coord", "__weakref__")]
