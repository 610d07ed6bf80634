"""Loads that are made whatever conditions say: where their addresses are, there is memory."""

from __future__ import annotations

from collections.abc import Iterator

from ktc.ir.fields import children
from ktc.ir.nodes import Binary, Body, Expr, Load, Select
from ktc.ir.walk import stmt_exprs


def certain_loads(body: Body) -> Iterator[Load]:
    """The loads that ``body`` makes whenever it runs: those of its own statements, not of what is inside them."""
    return (x for s in body for e in stmt_exprs(s) for x in _certain(e))


def _certain(e: Expr) -> Iterator[Load]:
    if isinstance(e, Select) or (isinstance(e, Binary) and e.op in ("&&", "||")):
        yield from _certain(e.cond if isinstance(e, Select) else e.a)
        return
    if isinstance(e, Load):
        yield e
    for x in children(e):
        yield from _certain(x)


__all__ = ["certain_loads"]
