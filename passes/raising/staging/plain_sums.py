"""Sums that a copy through a tile has left behind.

``x + (-16 + (16 + j))`` is ``x + j``, and a comparison has each term on the side where it is added:
``w - (x + (-144 + j)) > 144`` is ``w > x + j``.

A guess like all of this package: intermediate sums are others, which the exact comparison with the source looks at.
"""

from __future__ import annotations

from ktc.ir.arith.polynomial import Polynomial, from_polynomial, minus, polynomial, scaled
from ktc.ir.nodes import COMPARISONS, Binary, Body, Expr
from ktc.ir.types import I32, Scalar, is_signed_integer
from ktc.ir.walk import keep, map_body, walk_expr


def plain_sums(body: Body) -> Body:
    """``body`` with sums and comparisons of signed integers in their shortest spelling."""
    return map_body(body, keep, plain_sum)


def plain_sum(e: Expr) -> Expr:
    """The shortest spelling of ``e`` itself, whose operands are in theirs."""
    if not isinstance(e, Binary) or not (is_signed_integer(e.a.type) and is_signed_integer(e.b.type)):
        return e
    plain = _compared(e) if e.op in COMPARISONS else _summed(e) if e.op in "+-" else e
    return plain if _size(plain) < _size(e) else e


def _compared(e: Binary) -> Expr:
    p = minus(polynomial(e.a), polynomial(e.b))
    left: Polynomial = {f: k for f, k in p.items() if k > 0 and f}
    wide = max((x.type for x in (e.a, e.b) if isinstance(x.type, Scalar)), key=lambda t: t.bits, default=I32)
    return Binary(e.op, from_polynomial(left, wide), from_polynomial(scaled(minus(p, left), -1), wide))


def _summed(e: Binary) -> Expr:
    return from_polynomial(polynomial(e), e.type)


def _size(e: Expr) -> int:
    return sum(1 for _ in walk_expr(e))


__all__ = ["plain_sum", "plain_sums"]
