"""What host variables are where a condition holds, or does not: ``if (n == 4) k<4><<<..>>>(n);``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.syntax.cxx_ast import CxxCast, Lambda
from ktc.ir.frontend.syntax.syntax_walk import children


@dataclass(frozen=True, eq=False)
class Condition:
    """A condition that ``holds``, or does not, wherever a statement is reached; ``env``: what names meant there."""

    cond: Any
    holds: bool
    env: dict[str, Any]


def equal_there(env: dict[str, Any], subject: Any, value: Any) -> dict[str, Any]:
    """``env`` where ``subject == value``: a variable compared with a constant has that value."""
    while isinstance(subject, c_ast.Cast | CxxCast):
        subject = subject.expr
    if not isinstance(subject, c_ast.ID) or not isinstance(value, c_ast.Constant):
        return dict(env)
    old = env.get(subject.name)
    typ = old.type if isinstance(old, c_ast.Decl) else None
    return env | {subject.name: c_ast.Decl(subject.name, [], [], [], [], typ, value, None)}


def said_by(cond: Any, holds: bool) -> Iterator[tuple[Any, bool]]:
    """The conditions that hold, or do not, where ``cond`` ``holds``, or does not."""
    if isinstance(cond, c_ast.UnaryOp) and cond.op == "!":
        yield from said_by(cond.expr, not holds)
    elif isinstance(cond, c_ast.BinaryOp) and cond.op == ("&&" if holds else "||"):
        yield from said_by(cond.left, holds)
        yield from said_by(cond.right, holds)
    else:
        yield cond, holds


def is_equality(cond: Any, holds: bool) -> bool:
    """Whether two things are equal where ``cond`` ``holds``, or does not."""
    return isinstance(cond, c_ast.BinaryOp) and cond.op == ("==" if holds else "!=")


def assumed(env: dict[str, Any], cond: Any, holds: bool = True) -> dict[str, Any]:
    """``env`` where ``cond`` ``holds``, or does not."""
    for part, true in said_by(cond, holds):
        if is_equality(part, true):
            env = equal_there(equal_there(env, part.left, part.right), part.right, part.left)
        else:
            env = _truth(env, part, "true" if true else "false")
    return env


def _truth(env: dict[str, Any], cond: Any, value: str) -> dict[str, Any]:
    """``env`` where ``cond``, if it is a variable that is a truth, is ``true`` or ``false``."""
    old = env.get(cond.name) if isinstance(cond, c_ast.ID) else None
    if not isinstance(old, c_ast.Decl) or getattr(getattr(old.type, "type", None), "names", None) != ["bool"]:
        return dict(env)
    return env | {cond.name: c_ast.Decl(cond.name, [], [], [], [], old.type, c_ast.Constant("bool", value), None)}


def returned(node: Any, env: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """What the ``return`` statements at and below ``node`` return, each with ``env`` as the way to it says."""
    if isinstance(node, c_ast.Return):
        yield node.expr, env
    for c in parts_of(node) if not isinstance(node, c_ast.Return) else ():
        holds = isinstance(node, c_ast.If) and c is node.iftrue
        yield from returned(c, assumed(env, node.cond) if holds else env)


def parts_of(n: Any) -> Sequence[Any]:
    """What is below a node of host code: of a lambda its body."""
    return (n.body,) if isinstance(n, Lambda) else children(n)


__all__ = ["Condition", "assumed", "equal_there", "is_equality", "parts_of", "returned", "said_by"]
