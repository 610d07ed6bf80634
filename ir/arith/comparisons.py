"""Comparisons of integers that others imply: ``i + 1 < n`` where ``i + 2 < n`` holds."""

from __future__ import annotations

from collections.abc import Iterable

from ktc.ir.nodes import Binary, Expr
from ktc.ir.types import Scalar

from .polynomial import Polynomial, constant, minus, plus, polynomial


def follows(x: Expr, known: Iterable[Expr]) -> bool:
    """Whether the comparison ``x`` holds wherever all of ``known`` do: one of them is as strict, or stricter."""
    mine = below_zero(x)
    if mine is None:
        return False
    for k in known:
        theirs = below_zero(k)
        gap = None if theirs is None else minus(mine, theirs)
        if gap is not None and set(gap) <= {()} and gap.get((), 0) <= 0:
            return True
    return False


def below_zero(x: Expr) -> Polynomial | None:
    """``p`` where ``x``, a comparison of signed integers, is ``p < 0``; None for other conditions."""
    if not isinstance(x, Binary) or any(not _is_signed(e.type) for e in (x.a, x.b)):
        return None
    a, b = polynomial(x.a), polynomial(x.b)
    match x.op:
        case "<":
            return minus(a, b)
        case ">":
            return minus(b, a)
        case "<=":
            return plus(minus(a, b), constant(-1))
        case ">=":
            return plus(minus(b, a), constant(-1))
    return None


def _is_signed(t: object) -> bool:
    return isinstance(t, Scalar) and t.is_int and t.is_signed


__all__ = ["below_zero", "follows"]
