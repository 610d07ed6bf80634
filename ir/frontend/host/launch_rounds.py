"""The counters of the host's loops over launches: what they start from, and between what they are.

``for (t = 0; t < n - 1; t++) eliminate<<<grid, block>>>(a, n, t)`` launches the kernel for every ``t`` from 0 up to
``n - 2`` and for no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pycparser import c_ast

from ktc.ir.frontend.syntax.syntax_walk import descendants
from ktc.ir.frontend.syntax.variable_uses import init_args

ONE = c_ast.Constant("int", "1")


@dataclass(frozen=True, eq=False)
class Rounds:
    """The values of a counter, as syntax: from ``least`` on, below ``end``, each ``step`` after the one before."""

    least: Any
    end: Any
    step: Any


def started_in(loop: c_ast.For, changed: frozenset[str]) -> dict[str, Any]:
    """What the counters of ``loop`` start from, of those that its body, which changes the variables ``changed``, leaves
    alone; none that starts from a name with another meaning in the body."""
    init = loop.init
    if isinstance(init, c_ast.DeclList):
        begun = {d.name: args[0] for d in init.decls if len(args := init_args(d.init)) == 1}
    elif isinstance(init, c_ast.Assignment) and init.op == "=" and isinstance(init.lvalue, c_ast.ID):
        begun = {init.lvalue.name: init.rvalue}
    else:
        return {}
    inside = {x.name for x in descendants(loop.stmt) if isinstance(x, c_ast.Decl)} | changed
    names = {n: {x.name for x in (e, *descendants(e)) if isinstance(x, c_ast.ID)} for n, e in begun.items()}
    return {n: e for n, e in begun.items() if n not in inside and not names[n] & inside}


def rounds_of(loop: c_ast.For, started: Mapping[str, Any], changed: frozenset[str]) -> dict[str, Rounds]:
    """The values of the counters of ``loop`` that begin as ``started`` says and are counted up or down to an end that
    the body, which changes the variables ``changed``, leaves alone."""
    cond, out = loop.cond, dict[str, Rounds]()
    if not isinstance(cond, c_ast.BinaryOp) or cond.op not in MIRRORED:
        return out
    for op, counter, end in ((cond.op, cond.left, cond.right), (MIRRORED[cond.op], cond.right, cond.left)):
        name = counter.name if isinstance(counter, c_ast.ID) else ""
        names = {x.name for x in (end, *descendants(end)) if isinstance(x, c_ast.ID)}
        if name not in started or names & (changed | {name}):
            continue
        up, step = _step(loop.next, name)
        if up and op in ("<", "<="):
            out[name] = Rounds(started[name], _next(end) if op == "<=" else end, step)
        elif step is ONE and up is False and op in (">", ">="):
            out[name] = Rounds(_next(end) if op == ">" else end, _next(started[name]), step)
    return out


MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _next(e: Any) -> Any:
    return c_ast.BinaryOp("+", e, ONE)


def _step(counting: Any, name: str) -> tuple[bool | None, Any]:
    """Whether ``counting`` makes the counter ``name`` larger, and by how much; None where it does something else."""
    match counting:
        case c_ast.UnaryOp(op="++" | "p++" | "--" | "p--" as op, expr=c_ast.ID(name=n)) if n == name:
            return "+" in op, ONE
        case c_ast.Assignment(op="+=" | "-=" as op, lvalue=c_ast.ID(name=n), rvalue=by) if n == name:
            return op == "+=", by
        case c_ast.Assignment(op="=", lvalue=c_ast.ID(name=n), rvalue=c_ast.BinaryOp(op="+", left=a, right=b)):
            other = [y for x, y in ((a, b), (b, a)) if isinstance(x, c_ast.ID) and x.name == name]
            return (True, other[0]) if n == name and other else (None, ONE)
    return None, ONE


__all__ = ["Rounds", "rounds_of", "started_in"]
