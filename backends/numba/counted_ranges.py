"""Counted loops as Python's ``range``: numba makes better code of one than of a ``while``."""

from __future__ import annotations

from ktc.ir.nodes import MIRRORED, Binary, Const, Expr, For, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, loads_in, used

from .numba_expressions import ExprPrinter

_ENDS = {"<": (1, 0), "<=": (1, 1), ">": (-1, 0), ">=": (-1, -1)}
"""The direction in which a loop with this comparison counts, and how far beyond the limit its range ends."""


def range_of(s: For, x: ExprPrinter) -> str | None:
    """``range(...)`` for a counted loop whose bounds do not change inside; None for any other loop."""
    v, t = s.var, s.var.type
    if not isinstance(t, Scalar) or not t.is_int or t.name == "u64":
        return None
    end, step, moved = _end(s.cond, v), _step(s.step, v), assigned(s.body)
    if end is None or step is None or v in moved:
        return None
    (comparison, limit), (direction, by) = end, step
    goes, beyond = _ENDS[comparison]
    fixed = all(_fixed(e, moved | {v}) for e in (limit, by))
    if direction != goes or not fixed or not x.facts.interval(by).positive:
        return None
    if isinstance(limit, Const):
        stop = str(int(limit.value) + beyond)
    else:
        stop = x.text(limit, 11) + {0: "", 1: " + 1", -1: " - 1"}[beyond]
    amount, start = x.text(by, 12), x.text(s.init)
    if direction < 0 or amount != "1":
        return f"range({start}, {stop}, {'-' if direction < 0 else ''}{amount})"
    return f"range({stop})" if start == "0" else f"range({start}, {stop})"


def _end(cond: Expr, v: Sym) -> tuple[str, Expr] | None:
    """(comparison, limit) of a condition on ``v``, whichever side ``v`` stands on."""
    if not isinstance(cond, Binary) or cond.op not in _ENDS:
        return None
    if cond.b == Var(v):
        return MIRRORED[cond.op], cond.a
    return (cond.op, cond.b) if cond.a == Var(v) else None


def _step(step: Expr, v: Sym) -> tuple[int, Expr] | None:
    """(direction, amount) of ``v + amount``, ``amount + v`` or ``v - amount``."""
    match step:
        case Binary("+", Var(a), by) if a == v:
            return 1, by
        case Binary("+", by, Var(a)) if a == v:
            return 1, by
        case Binary("-", Var(a), by) if a == v:
            return -1, by
    return None


def _fixed(e: Expr, moved: set[Sym]) -> bool:
    return not (used(e) & moved) and not any(load.buffer in moved for load in loads_in(e))


__all__ = ["range_of"]
