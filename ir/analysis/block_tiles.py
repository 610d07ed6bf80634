"""Loops that blocks share, and how many iterations one of them takes."""

from __future__ import annotations

from ktc.ir.fold import i32, mul
from ktc.ir.nodes import Expr, Par, Stmt


def over_blocks(s: Stmt) -> bool:
    return isinstance(s, Par) and any(level.kind == "block" for level in s.dist)


def tile_of(s: Par) -> Expr:
    """Consecutive iterations of one block: the product of the levels inside the first block level."""
    out: Expr = i32(1)
    for level in s.dist:
        if level.kind == "block" or level.n is None:
            break
        out = mul(out, level.n)
    return out


__all__ = ["over_blocks", "tile_of"]
