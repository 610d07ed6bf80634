"""What integer expressions take to compute, in additions."""

from __future__ import annotations

from ktc.ir.nodes import Binary, Call, Cast, Const, Expr, Var
from ktc.ir.walk import walk_expr

SHIFTED, DIVIDED = 3, 12
"""Additions that take as long as a division by a power of two, and by anything else."""


def cost(e: Expr) -> int:
    """What ``e`` takes to compute, in additions: a division by what is no power of two takes many."""
    return sum(_cost_of(x) for x in walk_expr(e) if not isinstance(x, Cast | Var | Const))


def _cost_of(x: Expr) -> int:
    if isinstance(x, Call) and x.fn == "cdiv":
        return DIVIDED
    if not isinstance(x, Binary) or x.op not in ("/", "%"):
        return 1
    n = x.b.value if isinstance(x.b, Const) else 0
    return SHIFTED if isinstance(n, int) and n > 0 and n & (n - 1) == 0 else DIVIDED


__all__ = ["cost"]
