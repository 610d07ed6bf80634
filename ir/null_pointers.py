"""Pointer parameters that are ``nullptr``, or never are: how code asks, and what a kernel assumes.

``is_null(&b[0])`` asks about the parameter ``b``. As an assumption of a kernel it says that ``b`` is null, negated that
it is not; a launcher tests it like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from .fold import fold_node, is_const
from .kernel import Kernel
from .nodes import AddrOf, Binary, Body, Call, Const, Expr, If, Stmt, Sym, Unary, i32
from .types import BOOL, Ptr
from .walk import all_exprs, map_body, map_expr, walk_expr


def null_test(pointer: Sym, null: bool = True) -> Expr:
    """That ``pointer`` is null, or that it is not."""
    asked = Call("is_null", (AddrOf(pointer, (i32(0),)),), BOOL)
    return asked if null else Unary("!", asked)


def asked_about(e: Expr) -> Sym | None:
    """The pointer of which ``e`` asks whether it is null; None where it asks for something else, as for a row of a
    buffer whose rows lie anywhere."""
    if isinstance(e, Call) and e.fn == "is_null" and isinstance(e.args[0], AddrOf) and is_const(e.args[0].index[0], 0):
        return e.args[0].buffer
    return None


def pointers_in(e: Expr) -> set[Sym]:
    """The pointers of which ``e`` asks whether they are null."""
    return {s for x in walk_expr(e) if (s := asked_about(x)) is not None}


def pointers_asked_about(kernel: Kernel) -> set[Sym]:
    """The pointers of which ``kernel``, or what it assumes, asks whether they are null."""
    whole = (*all_exprs(kernel.body), *(a.expr for a in kernel.assumptions))
    return {s for e in whole for s in pointers_in(e)}


def known_nulls(kernel: Kernel) -> dict[Sym, bool]:
    """The pointer parameters that ``kernel`` assumes to be null, or not to be."""
    found: dict[Sym, bool] = {}
    left = [(a.expr, True) for a in kernel.assumptions]
    pointers = {p.sym for p in kernel.params if isinstance(p.sym.type, Ptr)}
    while left:
        e, holds = left.pop()
        if isinstance(e, Unary) and e.op == "!":
            left.append((e.x, not holds))
        elif isinstance(e, Binary) and e.op == "&&" and holds:
            left += [(e.a, True), (e.b, True)]
        elif (s := asked_about(e)) is not None and s in pointers:
            found[s] = holds
    return found


def decided(e: Expr, known: Mapping[Sym, bool]) -> Expr:
    """``e`` with the answers in place of questions about ``known`` pointers."""
    return map_expr(e, partial(_answered, known)) if pointers_in(e) & known.keys() else e


def with_decided(body: Body, known: Mapping[Sym, bool]) -> Body:
    """``body`` with the answers in place of questions about ``known`` pointers, without branches for other answers; the
    same object where it asks none."""
    if not known or not any(pointers_in(e) & known.keys() for e in all_exprs(body)):
        return body
    return map_body(body, taken, partial(_answered, known))


def _answered(known: Mapping[Sym, bool], e: Expr) -> Expr:
    s = asked_about(e)
    return Const(known[s], BOOL) if s is not None and s in known else fold_node(e)


def taken(s: Stmt) -> Stmt | Body:
    """``s``, or what it comes to where it is a branch whose condition is decided."""
    if isinstance(s, If) and isinstance(s.cond, Const):
        return s.then if s.cond.value else s.orelse
    return s


__all__ = [
    "asked_about", "decided", "known_nulls", "null_test", "pointers_asked_about", "pointers_in", "taken",
    "with_decided",
]  # fmt: skip
