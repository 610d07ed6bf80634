"""What is known where a statement stands, and where a part of an expression is asked for."""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.fields import children
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Body, Expr, For, Select, Stmt
from ktc.ir.walk import stmt_exprs, walk, walk_expr

from . import smt
from .intervals import Interval

BRANCHES = ("then", "orelse", "body")


def stays_in_type(kernel: Kernel, target: Stmt, e: Expr, names: Mapping[str, Interval]) -> bool:
    """Whether ``e``, integer arithmetic directly in ``target``, has a value of its type for parameters in these ranges,
    by everything known on the way there. What is known of a definition is what unbounded integers give: each of them,
    and each part of ``e``, must be found to stay in its type, too. Of a loop that is asked of its step alone, which is
    made with the values that the body has."""
    if isinstance(target, For) and not has_part(target.step, e):
        return False
    context = smt.Context(kernel)
    context.learn_ranges(names)
    place = context_at(kernel.body, target, context)
    if place is None:
        return False
    if isinstance(target, For):
        place = place.branch()
        place.enter(target, "body")
    tops = [top for top in stmt_exprs(target) if has_part(top, e)]
    if sum(x is e for top in tops for x in walk_expr(top)) == 1:
        learn_lazily(place, tops[0], e)
    return place.lasting(e) and place.fits(e, e.type)


def learn_lazily(place: smt.Context, top: Expr, e: Expr) -> None:
    """Adds what holds where ``e``, a part of ``top``, is asked for at all: what lazy operators ask first."""
    import z3

    lazy = isinstance(top, Binary) and top.op in ("&&", "||")
    first = top.a if isinstance(top, Binary) and lazy else top.cond if isinstance(top, Select) else None
    if first is not None and not has_part(first, e) and place.lasting(first):
        holds = has_part(top.a, e) if isinstance(top, Select) else top.op == "&&"  # type: ignore[attr-defined]
        truth = place.truth(first)
        place.facts.append(truth if holds else z3.Not(truth))
    inside = next((x for x in children(top) if has_part(x, e)), None)
    if inside is not None:
        learn_lazily(place, inside, e)


def has_part(top: Expr, e: Expr) -> bool:
    """Whether ``e`` itself, not only what is equal to it, is a part of ``top``."""
    return any(x is e for x in walk_expr(top))


def context_at(body: Body, target: Stmt, context: smt.Context) -> smt.Context | None:
    """What holds at ``target``."""
    for s in body:
        if s is target:
            return context
        for name in BRANCHES:
            inner: Body = getattr(s, name, ())
            if any(x is target for x in walk(inner)):
                inside = context.branch()
                inside.enter(s, name)
                return context_at(inner, target, inside)
        context.after(s)
    return None


__all__ = ["BRANCHES", "context_at", "has_part", "learn_lazily", "stays_in_type"]
