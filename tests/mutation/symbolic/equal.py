"""Statements whose operands have the same values where they stand (z3)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from ktc.ir.nodes import Binary, Call, Expr, Load, Select, Stmt, WarpOp
from ktc.ir.types import Scalar
from ktc.ir.walk import walk_expr
from ktc.search.verification.integers import smt

HIDDEN = ("loc", "comments", "tags", "spelling")

SAME = "z3: one value under the facts that hold there"


def equal_parts(s: Stmt | Expr, t: Stmt | Expr, context: smt.Context) -> str:
    """Why ``s`` and ``t`` differ in expressions alone, each of them equal to the other one's. Conditions of lazy
    operators are not assumed."""
    pairs = list(_differing(s, t)) if type(s) is type(t) else []
    same = bool(pairs) and all(
        isinstance(e, Expr) and isinstance(f, Expr) and equal_expressions(e, f, context) for e, f in pairs
    )
    return SAME if same else ""


def equal_expressions(e: Expr, f: Expr, context: smt.Context) -> bool:
    """Whether ``e`` and ``f`` have one value: all their parts do, or they do as wholes, or one is what the other one
    always chooses."""
    if equal_parts(e, f, context) or _always_chosen(e, f, context):
        return True
    whole = isinstance(e.type, Scalar) and (e.type.is_int or e.type.kind == "bool")
    return whole and _reads_no_more(e, f) and context.equal(e, f)


def _always_chosen(e: Expr, f: Expr, context: smt.Context) -> bool:
    if not isinstance(e, Select) or f not in (e.a, e.b) or not context.lasting(e.cond):
        return False
    import z3

    chosen = context.truth(e.cond)
    return context.proves(chosen if f == e.a else z3.Not(chosen))


def _differing(s: Any, t: Any) -> Iterator[tuple[Any, Any]]:
    """What stands in one place of both and is not the same."""
    for d in dataclasses.fields(s):
        x, y = getattr(s, d.name), getattr(t, d.name)
        if d.name in HIDDEN or x == y:
            continue
        if isinstance(x, tuple) and isinstance(y, tuple) and len(x) == len(y):
            yield from ((p, q) for p, q in zip(x, y) if p != q)
        else:
            yield x, y


def _reads_no_more(e: Expr, f: Expr) -> bool:
    """Whether ``f`` reads nothing that ``e`` does not, nor where ``e`` does not: what need not be there, or other lanes
    wait for."""
    mine = set(walk_expr(e))
    return all(x in mine for x in walk_expr(f) if isinstance(x, Load | WarpOp) or (_lazy(x) and _reads(x)))


def _lazy(e: Expr) -> bool:
    return isinstance(e, Select) or (isinstance(e, Binary) and e.op in ("&&", "||"))


def _reads(e: Expr) -> bool:
    return any(isinstance(x, Load | WarpOp) or (isinstance(x, Call) and x.effects != "pure") for x in walk_expr(e))


__all__ = ["HIDDEN", "SAME", "equal_expressions", "equal_parts"]
