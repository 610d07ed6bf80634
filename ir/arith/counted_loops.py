"""Serial loops that count: ``for (i = lo; i < hi; i += by)``, the form that passes can split, join and guard."""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.fold import add, cast, i32, is_const, lt, sub
from ktc.ir.nodes import MIRRORED, ORDERINGS, Binary, Const, Expr, For, Stmt, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, used

from .affine import linear_form


@dataclass(frozen=True)
class Counting:
    """A loop over ``lo, lo + by, ..`` below ``hi``."""

    lo: Expr
    hi: Expr
    by: Expr

    @property
    def by_one(self) -> bool:
        return is_const(self.by, 1)

    @property
    def from_zero_by_one(self) -> bool:
        return is_const(self.lo, 0) and self.by_one


def counting(loop: For) -> Counting | None:
    """``loop`` as one that counts, as it is written; None for any other.

    ``i <= n`` is ``i < n + 1``: of a signed counter, which could not pass the largest number either.
    """
    match loop.cond, loop.step:
        case Binary("<", Var(a), hi), Binary("+", Var(b), by) if a == b == loop.var:
            return Counting(loop.init, hi, by)
        case Binary("<=", Var(a), Const(last)), Binary("+", Var(b), by) if a == b == loop.var:
            return Counting(loop.init, Const(int(last) + 1, loop.var.type), by)  # type: ignore[arg-type]
        case Binary("<=", Var(a), last), Binary("+", Var(b), by) if a == b == loop.var and _is_signed(last, loop.var):
            return Counting(loop.init, add(last, cast(i32(1), loop.var.type)), by)  # type: ignore[arg-type]
    return None


def _is_signed(e: Expr, v: Sym) -> bool:
    return e.type == v.type and isinstance(v.type, Scalar) and v.type.is_int and v.type.is_signed


def distance(loop: For) -> Expr | None:
    """What is positive as long as ``loop``, which counts up or down to a limit, goes on, before its first iteration:
    how far its variable is from there, one further if it may reach it. None for any other loop, and for one whose body
    changes its variable, its step or its limit."""
    by, cond = loop_step(loop), loop.cond
    if by is None or not isinstance(cond, Binary) or cond.op not in ORDERINGS:
        return None
    if cond.a == Var(loop.var):
        limit, op = cond.b, cond.op
    elif cond.b == Var(loop.var):
        limit, op = cond.a, MIRRORED[cond.op]
    else:
        return None
    if not _is_signed(limit, loop.var) or (used(limit) | used(by)) & (assigned(loop.body) | {loop.var}):
        return None
    if loop.var in assigned(loop.body):
        return None
    ahead = sub(limit, loop.init) if op in ("<", "<=") else sub(loop.init, limit)
    return add(ahead, cast(i32(1), loop.var.type)) if op in ("<=", ">=") else ahead  # type: ignore[arg-type]


def why_unsteady(loop: For, form: Counting) -> str:
    """'' if neither the variable nor a bound of ``loop``, which counts as ``form``, changes in its body; else the
    reason."""
    changed = assigned(loop.body)
    if (used(form.hi) | used(form.by)) & (changed | {loop.var}):
        return f"the bounds of '{loop.var.name}' change in the loop"
    return f"the loop changes '{loop.var.name}' itself" if loop.var in changed else ""


def why_uncounted(loop: For) -> str:
    """'' if ``loop`` counts up by one and its body changes neither the variable nor a bound; else the reason."""
    form = counting(loop)
    if form is None or not form.by_one:
        return f"'{loop.var.name}' does not count 'i < limit; i += 1'"
    return why_unsteady(loop, form)


def loop_step(loop: For) -> Expr | None:
    """``c`` of a loop whose step is ``var + c`` or ``var - c``; None for others (``stride >>= 1``)."""
    form = linear_form(loop.step, (loop.var,))
    if form is None or not is_const(form.coeff(loop.var), 1) or is_const(form.rest, 0):
        return None
    return form.rest


def count(v: Sym, n: Expr, *body: Stmt) -> For:
    """``for (v = 0; v < n; ++v)``, unrolled."""
    return For(v, i32(0), lt(Var(v), n), add(Var(v), i32(1)), body, unroll=0)


__all__ = ["Counting", "count", "counting", "distance", "loop_step", "why_uncounted", "why_unsteady"]
