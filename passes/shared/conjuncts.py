"""Conditions taken apart: the parts of a conjunction, and the negation of one."""

from __future__ import annotations

from ktc.ir.nodes import NEGATED, Binary, Cast, Expr, Unary
from ktc.ir.types import BOOL, Scalar


def conjuncts_of(e: Expr) -> list[Expr]:
    """The parts of a conjunction, ``!(a || b)`` taken apart too."""
    if isinstance(e, Cast) and e.to == BOOL:
        x = e.x.x if isinstance(e.x, Cast) else e.x  # what came out as true is 1, and so is true
        return conjuncts_of(x) if x.type == BOOL else [e]
    if isinstance(e, Unary) and e.op == "!":
        n = negate(e.x)
        return [e] if isinstance(n, Unary) else conjuncts_of(n)
    if isinstance(e, Binary) and e.op == "&&":
        return conjuncts_of(e.a) + conjuncts_of(e.b)
    return [e]


def negate(e: Expr) -> Expr:
    """``!e``, pushed inward: a comparison of integers becomes the opposite one."""
    if isinstance(e, Unary) and e.op == "!":
        return e.x
    if isinstance(e, Binary) and e.op in NEGATED and not _is_float(e.a):
        return Binary(NEGATED[e.op], e.a, e.b)
    if isinstance(e, Binary) and e.op in ("&&", "||"):
        return Binary("||" if e.op == "&&" else "&&", negate(e.a), negate(e.b))
    return Unary("!", e)


def _is_float(e: Expr) -> bool:
    return isinstance(e.type, Scalar) and e.type.is_float  # !(a < b) is not a >= b for NaN


__all__ = ["conjuncts_of", "negate"]
