"""Integer expressions that facts make smaller: choices that are decided, digits that are known.

before                                  after, where
    min(i, n)                               i                   i <= n
    i < n ? a : b                           a                   i < n
    x % n, x / n                            x, 0                0 <= x < n
    (x + n * y) / n, (x + n * y) % n        y, x                0 <= x < n, and y not negative
    x / n * n + x % n                       x
    x / 4 / 8, x % 32 % 8                   x / 32, x % 8

Each keeps the value of every expression that has one, as far as the facts' trust goes; what is put together anew is
computed without an overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ktc.ir.fold import fold_node
from ktc.ir.nodes import COMPARISONS, LOGICAL, Binary, Call, Cast, Const, Expr, Select, Unary
from ktc.ir.types import BOOL, Scalar
from ktc.ir.walk import map_expr, walk_expr

from .elimination import interval_of, quotient
from .enclosures import is_integer
from .interval import Interval
from .kernel_facts import Facts
from .polynomial import Polynomial, from_polynomial, times


def simplified(e: Expr, facts: Facts) -> Expr:
    """``e``, smaller where ``facts`` allow."""

    def on(x: Expr) -> Expr:
        x = fold_node(x)
        for rule in _RULES.get(type(x), ()):
            found = rule(x, facts)
            if found is not None:
                return found
        return x

    return map_expr(e, on)


def _choice(e: Select, facts: Facts) -> Expr | None:
    holds = facts.truth(e.cond)
    return None if holds is None else e.a if holds else e.b


def _decided(e: Binary, facts: Facts) -> Expr | None:
    if e.op not in COMPARISONS | LOGICAL or not is_integer(e.a.type):
        return None
    holds = facts.truth(e)
    return None if holds is None else Const(holds, BOOL)


def _negation(e: Unary, facts: Facts) -> Expr | None:
    holds = facts.truth(e) if e.op == "!" and is_integer(e.x.type) else None
    return None if holds is None else Const(holds, BOOL)


def _extreme(e: Call, facts: Facts) -> Expr | None:
    """``min`` and ``max`` of two of which one is never beyond the other."""
    if e.fn not in ("min", "max") or len(e.args) != 2 or not is_integer(e.type):
        return None
    a, b = e.args
    small, large = (a, b) if facts.at_most(a, b) else (b, a) if facts.at_most(b, a) else (None, None)
    found = small if e.fn == "min" else large
    return found if found is not None and found.type == e.type else None


def _digit(e: Binary, facts: Facts) -> Expr | None:
    """A quotient or remainder of what is below the divisor, or a multiple of it."""
    if e.op not in ("/", "%") or not facts.interval(e.b).positive or not facts.whole(e):
        return None
    if e.op == "%" and (n := facts.interval(e.b).constant) is not None and facts.multiple_of(e.a, n):
        return _number(0, e)
    if facts.never_negative(e.a) and facts.below(e.a, e.b):
        return _number(0, e) if e.op == "/" else e.a
    return None


def _split(e: Binary, facts: Facts) -> Expr | None:
    """``(x + n * y) / n`` and ``% n`` by what of the sum is a multiple of ``n``."""
    if e.op not in ("/", "%") or not facts.interval(e.b).positive or not facts.whole(e):
        return None
    divisor = facts.polynomial(e.b)
    whole: Polynomial = {}
    rest: Polynomial = {}
    for factors, k in facts.polynomial(e.a).items():
        q = quotient({factors: k}, divisor)
        if q is None:
            rest[factors] = k
        else:
            whole |= times(q, {(): 1})
    if not whole or not facts.never_negative(e.a) or not _below(rest, e.b, facts):
        return None
    built = _built(whole if e.op == "/" else rest, e, facts)
    return built if built is not None and _size(built) < _size(e) else None


def _below(p: Polynomial, n: Expr, facts: Facts) -> bool:
    """Whether ``0 <= p < n``."""
    own, limit = interval_of(p, facts), facts.interval(n)
    if own.never_negative and own.high is not None and limit.low is not None and own.high < limit.low:
        return True
    ((alone, k), *others) = p.items() or [((), 0)]
    return not others and k == 1 and len(alone) == 1 and facts.never_negative(alone[0]) and facts.below(alone[0], n)


def _built(p: Polynomial, e: Expr, facts: Facts) -> Expr | None:
    """``p`` as an expression of the type of ``e``, if no part of it can overflow."""
    t = e.type
    assert isinstance(t, Scalar)
    found = from_polynomial(p, t)
    parts = [x for x in walk_expr(found) if isinstance(x, Binary)]
    return found if all(facts.raw(x).fits(t) for x in parts if x.op in "+-*") and _converts(found, facts) else None


def _converts(e: Expr, facts: Facts) -> bool:
    return all(facts.exact(x) for x in walk_expr(e) if isinstance(x, Cast) and x.style != "bit")


def _rejoined(e: Binary, facts: Facts) -> Expr | None:
    """``x / n * n + x % n`` is x."""
    if e.op != "+":
        return None
    for whole, rest in ((e.a, e.b), (e.b, e.a)):
        match whole, rest:
            case Binary(op="*", a=p, b=q), Binary(op="%", a=x, b=n):
                for d, by in ((p, q), (q, p)):
                    if by == n and d == Binary("/", x, n) and x.type == e.type:
                        return x
    return None


def _nested(e: Binary, facts: Facts) -> Expr | None:
    """``x / a / b`` is ``x / (a * b)``; ``x % (a * b) % a`` is ``x % a``."""
    match e:
        case Binary(op="/" | "%" as op, a=Binary(op=inner, a=x, b=Const(value=m)), b=Const(value=n)) if op == inner:
            t = e.type
            if not isinstance(t, Scalar) or isinstance(m, float) or isinstance(n, float) or m < 1 or n < 1:
                return None
            if op == "/" and m * n in Interval.of_type(t):
                return Binary("/", x, Const(m * n, t))
            return Binary("%", x, Const(n, t)) if op == "%" and m % n == 0 else None
    return None


def _number(n: int, e: Expr) -> Expr | None:
    t = e.type
    return Const(n, t) if isinstance(t, Scalar) else None


def _size(e: Expr) -> int:
    return sum(1 for _ in walk_expr(e))


_Rule = Callable[[Any, Facts], "Expr | None"]
_RULES: dict[type, tuple[_Rule, ...]] = {
    Select: (_choice,),
    Unary: (_negation,),
    Call: (_extreme,),
    Binary: (_decided, _rejoined, _nested, _digit, _split),
}

__all__ = ["simplified"]
