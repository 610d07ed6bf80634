"""Conditions taken apart: the parts of a conjunction, the negation of one, and what is left of them for some iteration.

y - 1 + r >= 0 && y - 1 + r < h         for some y in 0..4: 3 - 1 + r >= 0 && -1 + r < h && 0 < h
"""

from __future__ import annotations

from collections.abc import Iterable

from ktc.ir.arith.comparisons import below_zero
from ktc.ir.arith.counted_loops import counting
from ktc.ir.arith.loop_extents import lower_bounds, upper_bounds
from ktc.ir.arith.polynomial import Polynomial, constant, from_polynomial, plus, scaled
from ktc.ir.nodes import NEGATED, Binary, Cast, Const, Expr, For, Par, Reduce, Scan, Unary, Var
from ktc.ir.types import BOOL, I32, Scalar, is_signed_integer
from ktc.ir.walk import used

Loop = For | Par | Reduce | Scan


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


def for_some(loop: Loop, conds: Iterable[Expr]) -> list[Expr] | None:
    """What is enough for some iteration of ``loop``, which has one, to meet all of ``conds``; None where nothing is
    known to be.

    Each bound of the counter from below has to be under each from above (Fourier-Motzkin), by so much that there is a
    multiple in between where both have the counter several times (Pugh's dark shadow); where one of them has it once,
    nothing less is enough. What the loop's own bounds are to each other is for the caller to ask.
    """
    told = [c for c in conds if loop.var in used(c)]
    rest = [c for c in conds if loop.var not in used(c)]
    form = counting(loop) if isinstance(loop, For) else loop
    if form is None or (isinstance(loop, For) and not form.by_one):  # type: ignore[union-attr]
        return None
    own = [Binary(">=", Var(loop.var), lo) for lo in lower_bounds(form.lo)]
    own += [Binary("<", Var(loop.var), hi) for hi in upper_bounds(form.hi)]
    sides: dict[bool, list[tuple[Polynomial, int, bool]]] = {True: [], False: []}
    for c in (*told, *own):
        p = below_zero(c)
        k = 0 if p is None else _times(p, loop)
        if p is None or not k:
            return None
        sides[k > 0].append((p, abs(k), c in own))
    pairs = [(x, y) for x in sides[True] for y in sides[False] if not (x[2] and y[2])]
    joined = [_between(p, m, q, n) for (p, m, _), (q, n, _) in pairs]
    return rest + [Binary("<", from_polynomial(p, I32), Const(0, I32)) for p in joined if not _is_negative(p)]


def _between(p: Polynomial, m: int, q: Polynomial, n: int) -> Polynomial:
    """What is below zero only where some integer x is between ``p``, which is ``m * x`` and more, and ``q``, which is
    ``-n * x`` and more: both are below zero there."""
    return plus(plus(scaled(p, n), scaled(q, m)), constant(m + n - 1 + (m - 1) * (n - 1)))


def _times(p: Polynomial, loop: Loop) -> int:
    """What the counter of ``loop`` is multiplied by in ``p``; 0 if that is more than a number."""
    mine = {factors: k for factors, k in p.items() if any(loop.var in used(f) for f in factors)}
    alone = (Var(loop.var),)
    return mine[alone] if set(mine) == {alone} and is_signed_integer(loop.var.type) else 0


def _is_negative(p: Polynomial) -> bool:
    return set(p) <= {()} and p.get((), 0) < 0


__all__ = ["conjuncts_of", "for_some", "negate"]
