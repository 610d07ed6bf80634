"""Loops that come to an end: code that is run where it was not before must not go round for ever."""

from __future__ import annotations

from ktc.ir.nodes import Binary, Cast, Const, Expr, For, Stmt, Var
from ktc.search.verification.integers import smt
from ktc.search.verification.integers.formulas import divisor, increment

from .subscripts import stays_inside


def may_run(s: Stmt, context: smt.Context) -> bool:
    """Whether ``s`` itself may be run where it was not before, as far as arrays and loops are concerned."""
    return stays_inside(s, context) and (not isinstance(s, For) or ends(s, context))


def ends(s: For, context: smt.Context) -> bool:
    """Whether ``s`` ends wherever the facts hold: it counts up to a bound, or divides down to one."""
    return s.var not in context.changed and (counts_up(s, context) or _divides_to_zero(s))


def counts_up(s: For, context: smt.Context) -> bool:
    """Whether the condition, once false, stays so: the variable grows, and the bound does not change."""
    step = increment(s)
    if step is None or not isinstance(s.cond, Binary) or s.cond.op not in ("<", "<="):
        return False
    left: Expr = s.cond.a
    while isinstance(left, Cast):
        left = left.x
    if left != Var(s.var) or not (context.lasting(s.cond.b) and context.lasting(step)):
        return False
    return context.proves(context.of(step) > 0)


def _divides_to_zero(s: For) -> bool:
    """Whether ``s`` divides its variable by a number until it is zero."""
    cond = s.cond
    if not (isinstance(cond, Binary) and isinstance(cond.b, Const) and cond.a == Var(s.var)):
        return False
    return divisor(s) >= 2 and (cond.op, cond.b.value) in ((">", 0), (">=", 1))


__all__ = ["counts_up", "ends", "may_run"]
