"""What a function's syntax says about its variables, without types: which are changed,
which are viewed as other types."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pycparser import c_ast

from .cxx_ast import Asm, CtorInit, CxxCast
from .reference_arguments import Positions, changed_by
from .syntax_walk import children


@dataclass
class Facts:
    """``mutated``: names assigned, incremented or addressed. ``views``: name -> types it is reinterpreted as.

    ``loop_only``: names declared outside, but used only inside ``for`` loops that start by assigning them.
    """

    mutated: set[str] = field(default_factory=set)
    views: dict[str, list[Any]] = field(default_factory=dict)
    loop_only: set[str] = field(default_factory=set)
    returns: int = 0
    sources: dict[str, list[Any]] = field(default_factory=dict)
    """What is assigned to a variable, or initialises it: expressions by name."""

    @staticmethod
    def empty() -> Facts:
        return Facts()


def base_name(node: Any) -> str | None:
    """The variable at the bottom of an lvalue expression."""
    while node is not None:
        if isinstance(node, c_ast.ID):
            return node.name
        if isinstance(node, c_ast.ArrayRef | c_ast.StructRef):
            node = node.name
        elif (isinstance(node, c_ast.UnaryOp) and node.op in ("*", "++", "--", "p++", "p--", "&")) or isinstance(
            node, c_ast.Cast | CxxCast
        ):
            node = node.expr
        else:
            return None
    return None


def init_args(init: Any) -> list:
    """Initialiser forms ``= x``, ``(x, y)``, ``{x, y}`` as a list of expressions."""
    if init is None:
        return []
    if isinstance(init, CtorInit):
        return list(init.args)
    return list(init.exprs) if isinstance(init, c_ast.InitList) else [init]


def facts_of(body: Any, nodes: list[Any], by_reference: Positions) -> Facts:
    """Facts of a function body whose telling nodes (see ``syntax_walk``) are ``nodes``.

    ``by_reference`` says which arguments a call may change.
    """
    facts = Facts()
    for node in nodes:
        if isinstance(node, c_ast.Assignment):
            _note(facts, node.lvalue)
            if node.op == "=" and isinstance(node.lvalue, c_ast.ID):
                facts.sources.setdefault(node.lvalue.name, []).append(node.rvalue)
        elif isinstance(node, c_ast.Decl) and node.init is not None and node.name:
            facts.sources.setdefault(node.name, []).append(node.init)
        elif isinstance(node, c_ast.UnaryOp) and node.op in ("++", "--", "p++", "p--", "&"):
            _note(facts, node.expr)
        elif isinstance(node, CxxCast | c_ast.Cast):
            target = node.expr
            if isinstance(target, c_ast.UnaryOp) and target.op == "&" and isinstance(target.expr, c_ast.ID):
                facts.views.setdefault(target.expr.name, []).append(node.to_type)
        elif isinstance(node, Asm):
            for _, e in node.outputs:
                _note(facts, e)
        elif isinstance(node, c_ast.Return):
            facts.returns += 1
        for changed in changed_by(node, by_reference):
            _note(facts, changed)
    if any(isinstance(n, c_ast.For) and _assigned_in_init(n.init) for n in nodes):
        facts.loop_only = _loop_only(body)
    return facts


def _note(facts: Facts, lvalue: Any) -> None:
    for place in _denoted(lvalue):
        _note_place(facts, place)


def _denoted(node: Any) -> list[Any]:
    """The places that an expression may denote."""
    if isinstance(node, c_ast.TernaryOp):
        return [*_denoted(node.iftrue), *_denoted(node.iffalse)]
    if isinstance(node, c_ast.ExprList):
        return _denoted(node.exprs[-1]) if node.exprs else []
    if isinstance(node, c_ast.NamedInitializer):
        return _denoted(node.expr)
    return _denoted(node.lvalue) if isinstance(node, c_ast.Assignment) else [node]


def _note_place(facts: Facts, lvalue: Any) -> None:
    name = base_name(lvalue)
    if name is not None:
        # p[i] = x and *p = x change what p points to, not p; but a scalar under & is changed
        if _through_pointer(lvalue):
            facts.mutated.add("*" + name)
        else:
            facts.mutated.add(name)


def _through_pointer(node: Any) -> bool:
    """Whether the lvalue is what a pointer or array at its bottom points to, not that itself."""
    while node is not None:
        if isinstance(node, c_ast.ArrayRef) or (isinstance(node, c_ast.UnaryOp) and node.op == "*"):
            return True
        if isinstance(node, c_ast.StructRef):
            if node.type == "->":
                return True
            node = node.name
        elif isinstance(node, c_ast.Cast | CxxCast):
            node = node.expr
        else:
            return False
    return False


def _assigned_in_init(init: Any) -> str | None:
    if isinstance(init, c_ast.Assignment) and init.op == "=" and isinstance(init.lvalue, c_ast.ID):
        return init.lvalue.name
    return None


def _loop_only(body: Any) -> set[str]:
    """Names whose every use is inside a ``for`` whose initialiser assigns them."""
    inside: set[str] = set()
    outside: set[str] = set()

    def visit(node: Any, bound: frozenset[str]) -> None:
        if isinstance(node, c_ast.For):
            name = _assigned_in_init(node.init)
            if name is not None:
                inside.add(name)
                visit(node.init.rvalue, bound)
                inner = bound | {name}
                for part in (node.cond, node.next, node.stmt):
                    if part is not None:
                        visit(part, inner)
                return
        if isinstance(node, c_ast.ID) and node.name not in bound:
            outside.add(node.name)
        for c in children(node):
            visit(c, bound)

    visit(body, frozenset())
    return inside - outside


def mutates(node: Any, name: str) -> bool:
    """Whether ``node`` assigns the variable ``name`` itself."""
    return name in mutated(node)


def mutated(node: Any) -> frozenset[str]:
    """The variables that ``node`` assigns, or whose address it takes."""
    found: set[str | None] = set()
    stack = [node]
    while stack:
        n = stack.pop()
        if isinstance(n, c_ast.Assignment):
            found.add(base_name(n.lvalue))
        elif isinstance(n, c_ast.UnaryOp) and n.op in ("++", "--", "p++", "p--", "&"):
            found.add(base_name(n.expr))
        stack.extend(children(n))
    return frozenset(n for n in found if n is not None)
