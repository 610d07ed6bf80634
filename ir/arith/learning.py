"""What a condition that holds says: narrower intervals, polynomials that are never positive, divisors, equalities.

``i + 1 < n`` says of ``i`` that it is at most the largest ``n`` less 2, and that ``i - n + 2`` is never positive; where
8 divides ``i`` and ``n``, ``i < n`` says that ``i - n + 8`` is never positive. What a condition says of something that
changes is not learnt: it may be over before it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktc.ir.nodes import MIRRORED, Binary, Call, Expr, Unary, Var
from ktc.ir.walk import walk_expr

from .comparisons import parts
from .congruence import Congruence
from .divisors import residue
from .elimination import atoms, interval_of, split_by
from .interval import Interval
from .polynomial import Polynomial, constant, minus, plus

if TYPE_CHECKING:
    from .kernel_facts import Facts


def learn(condition: Expr, holds: bool, facts: Facts) -> None:
    """Add to ``facts`` what follows where ``condition`` comes out as ``holds``."""
    for c in parts(condition, holds, facts.symbols.names):
        if facts.symbols.steady(c):
            _learn_part(c, facts)


def learn_below_zero(q: Polynomial, facts: Facts) -> None:
    """Add ``q <= 0``, and how that narrows what it is made of."""
    if not atoms(q):
        return
    left = residue(q, facts)
    if left.modulus > 1:
        q = plus(q, constant(-left.residue % left.modulus))  # 8 divides it: below 0, it is at most -8
    facts.never_above_zero(q)
    for atom in atoms(q):
        split = split_by(q, atom)
        k = split[0].get((), 0) if split is not None and set(split[0]) == {()} else 0
        least = interval_of(split[1], facts).low if split is not None and k else None
        if least is not None:  # k * atom <= -least
            facts.narrow(atom, Interval(None, -least // k) if k > 0 else Interval(-(least // k), None))


def _learn_part(c: Expr, facts: Facts) -> None:
    facts.narrow(c, Interval.point(1))
    if isinstance(c, Unary):
        facts.narrow(c.x, Interval.point(0))
    if not isinstance(c, Binary) or c.op not in MIRRORED:
        return
    for op, a, b in ((c.op, c.a, c.b), (MIRRORED[c.op], c.b, c.a)):
        limit = _limit(op, facts.interval(a), facts.interval(b))
        if limit is not None:
            facts.narrow(facts.plain(a), limit)
    p, q = facts.polynomial(c.a), facts.polynomial(c.b)
    if c.op in ("<", "<=", "=="):
        learn_below_zero(plus(minus(p, q), constant(int(c.op == "<"))), facts)
    if c.op in (">", ">=", "=="):
        learn_below_zero(plus(minus(q, p), constant(int(c.op == ">"))), facts)
    if c.op == "==":
        _learn_equal(c, facts)
    for e in (facts.plain(c.a), facts.plain(c.b)):
        _learn_divided(e, facts)


def _learn_divided(e: Expr, facts: Facts) -> None:
    """Of a quotient that is positive: what is divided is as large as the divisor; if it is rounded up, positive."""
    match e:
        case Binary(op="/", a=a, b=b) if facts.interval(e).positive and facts.interval(b).positive and facts.exact(e):
            _learn_part(Binary(">=", a, b), facts)
        case Call(fn="cdiv", args=(a, b)) if facts.interval(e).positive and facts.interval(b).positive:
            if not facts.interval(a).positive:
                facts.narrow(facts.plain(a), Interval(1, None))


def _limit(op: str, mine: Interval, other: Interval) -> Interval | None:
    """What ``mine`` is within where ``mine op other`` holds."""
    n = other.constant
    if op == "!=":
        if n is None or n not in (mine.low, mine.high):
            return None
        return Interval(n + 1, None) if n == mine.low else Interval(None, n - 1)
    return {
        "<": Interval(None, None if other.high is None else other.high - 1), "<=": Interval(None, other.high),
        ">": Interval(None if other.low is None else other.low + 1, None), ">=": Interval(other.low, None),
        "==": other,
    }[op]  # fmt: skip


def _learn_equal(c: Binary, facts: Facts) -> None:
    for a, b in ((c.a, c.b), (c.b, c.a)):
        left, x = facts.interval(b).constant, facts.plain(a)
        if isinstance(x, Binary) and x.op == "%" and left is not None:
            _learn_residue(x.a, x.b, left, facts)
        elif isinstance(x, Var) and set(facts.polynomial(x)) == {(x,)}:
            p = facts.polynomial(b)
            if all(x not in set(walk_expr(atom)) for atom in atoms(p)):
                facts.replace(x.sym, p)
                return


def _learn_residue(e: Expr, by: Expr, left: int, facts: Facts) -> None:
    """``e % by`` is ``left``. Of a quotient that is exact, so is known of what is divided."""
    n = facts.interval(by).constant
    if not n:
        if left == 0 and n is None:
            facts.divide_by(e, by)
        return
    known = Congruence(abs(n), left)
    for x in (e, facts.plain(e)):
        facts.divide(x, known)
    x = facts.plain(e)
    m = facts.interval(x.b).constant if isinstance(x, Binary) and x.op == "/" else None
    if isinstance(x, Binary) and m and facts.multiple_of(x.a, m):
        facts.divide(facts.plain(x.a), Congruence(abs(n * m), left * m))


__all__ = ["learn", "learn_below_zero"]
