"""Loops of host code that compute numbers from constants, as launches choose how many threads a block has.

    int threads = 32;                                  threads: 32 * 2 < n ? (64 * 2 < n ? .. : 64) : 32
    while (threads < 512 && threads * 2 < n)
      threads *= 2;

After such a loop a variable holds what a call returns that begins with the same constant and goes through the same
rounds; lowering that call, like any other of a host function, tells the value (:mod:`.followed_values`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.syntax.cxx_ast import Lambda, QualName
from ktc.ir.frontend.syntax.syntax_walk import descendants, replaced

from .host_assignments import Env, current, forget, key_of

_ELSEWHERE = (c_ast.Return, c_ast.Goto, c_ast.Label, c_ast.Decl, Lambda, c_ast.ArrayRef)
"""What no loop has that only computes numbers."""

_PURE = frozenset({"min", "max"})

_STEPS = frozenset({"++", "--", "p++", "p--"})


def follow_values(loop: Any, env: Env, changed: Collection[str]) -> bool:
    """Whether ``loop`` does nothing but compute ``changed`` variables, all of them constants before it, until one has
    come to a constant; ``env`` is what holds after it then, else as it was."""
    names = sorted(changed)
    begun = {name: _begun(name, env, loop) for name in names}
    if not names or None in begun.values() or not _computes(loop, names) or not _is_bounded(loop.cond, names, env):
        return False
    inner = {name: f"{name}_in_loop" for name in names}

    def inside(n: Any) -> Any | None:
        return c_ast.ID(inner[n.name], n.coord) if isinstance(n, c_ast.ID) and n.name in inner else None

    rounds, at = replaced(loop, inside), loop.coord
    declared = [_variable(inner[n], d) for n, d in begun.items() if d is not None]
    for name, before in begun.items():
        assert before is not None
        body = c_ast.Compound([*declared, rounds, c_ast.Return(c_ast.ID(inner[name]))], at)
        called = c_ast.FuncCall(Lambda([("&", None, None)], None, body, None, None, False, coord=at), None, at)
        forget(env, name)
        env[name] = c_ast.Decl(name, [], [], [], [], before.type, called, None, at)
    return True


def _begun(name: str, env: Env, loop: Any) -> c_ast.Decl | None:
    """The declaration of a variable with the constant that it holds as ``loop`` begins; None for any other."""
    held, value = env.get(name), current(env, name)
    first = loop.init if isinstance(loop, c_ast.For) else None
    if isinstance(first, c_ast.Assignment) and first.op == "=" and key_of(first.lvalue) == name:
        value = first.rvalue
    of = held.type if isinstance(held, c_ast.Decl) else None
    if not isinstance(of, c_ast.TypeDecl) or not isinstance(value, c_ast.Constant):
        return None
    return c_ast.Decl(name, [], [], [], [], of, value, None)


def _variable(name: str, like: c_ast.Decl) -> c_ast.Decl:
    return c_ast.Decl(name, [], [], [], [], c_ast.TypeDecl(name, [], None, like.type.type), like.init, None)


def _computes(loop: Any, names: Collection[str]) -> bool:
    """Whether nothing happens in ``loop`` but assignments to ``names``."""
    for n in descendants(loop):
        if isinstance(n, _ELSEWHERE):
            return False
        if isinstance(n, c_ast.FuncCall) and _called(n.name) not in _PURE:
            return False
        if isinstance(n, c_ast.Assignment) and key_of(n.lvalue) not in names:
            return False
        if isinstance(n, c_ast.UnaryOp) and n.op in _STEPS and key_of(n.expr) not in names:
            return False
    return True


def _called(name: Any) -> str | None:
    return name.parts[-1].name if isinstance(name, QualName) else getattr(name, "name", None)


def _is_bounded(cond: Any, names: Collection[str], env: Env) -> bool:
    """Whether one of ``names`` has to be below or above a constant for the loop to go on."""
    if isinstance(cond, c_ast.BinaryOp) and cond.op == "&&":
        return _is_bounded(cond.left, names, env) or _is_bounded(cond.right, names, env)
    if not isinstance(cond, c_ast.BinaryOp) or cond.op not in ("<", "<=", ">", ">=", "!="):
        return False
    named = [{n.name for n in (x, *descendants(x)) if isinstance(n, c_ast.ID)} for x in (cond.left, cond.right)]
    moving = [bool(used & {*names}) for used in named]
    told = [all(isinstance(current(env, n), c_ast.Constant) for n in used) for used in named]
    return moving != [True, True] and any(m and t for m, t in zip(moving, reversed(told)))


__all__ = ["follow_values"]
