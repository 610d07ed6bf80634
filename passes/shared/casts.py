"""Looking through conversions."""

from __future__ import annotations

from ktc.ir.nodes import Cast, Expr


def strip(e: Expr) -> Expr:
    """``e`` without outer casts."""
    while isinstance(e, Cast):
        e = e.x
    return e
