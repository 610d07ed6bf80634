"""Integer expressions that facts make smaller: choices that are decided, digits that are known.

before                                  after, where
    min(i, n)                               i                   i <= n
    i < n ? a : b                           a                   i < n
    x % n, x / n                            x, 0                0 <= x < n
    (x + n * y) / n, (x + n * y) % n        y, x                0 <= x < n, and the sum is not negative
                                            y + x / n, x % n    0 <= x, and the sum is not negative
    i / n, i % n                            t, i - t * n        t * n <= i < t * n + n: i counts on in a tile
    cdiv(n * y, n)                          y                   0 <= n * y
    x / n * n + x % n                       x
    x / 4 / 8, x % 32 % 8                   x / 32, x % 8
    x / 4 * 4 / 32                          x / 32              0 <= x
    x / 4 * 4                               x                   4 divides x

Each keeps the value of every expression that has one, as far as the facts' trust goes; what is put together anew is
computed without an overflow, and for less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd
from typing import Any

from ktc.ir.fold import fold_node, is_const
from ktc.ir.nodes import COMPARISONS, LOGICAL, Binary, Call, Cast, Const, Expr, Knob, Select, Unary, Var
from ktc.ir.operation_costs import cost
from ktc.ir.types import BOOL, Scalar
from ktc.ir.walk import map_expr, walk_expr

from . import refutations
from .arrivals import Place
from .divisors import quotient
from .enclosures import is_integer
from .interval import Interval
from .kernel_facts import Facts
from .polynomial import Polynomial, constant, from_polynomial, minus, plus, scaled, times


def simplified(e: Expr, place: Place | Facts) -> Expr:
    """``e``, smaller where what is known at ``place`` allows."""
    here = place if isinstance(place, Place) else Place.of(place)

    def on(x: Expr) -> Expr:
        x = fold_node(x)
        left = _left(x, here)
        if not left or x in here.facts.smallest:
            return x
        for rule in left:
            found = rule(x, here.facts)
            if found is not None:
                return found
        here.facts.smallest.add(x)
        return x

    changes = any(fold_node(x) is not x or _left(x, here) for x in walk_expr(e))
    return map_expr(e, on) if changes else e


def _left(x: Expr, here: Place) -> list[Callable[[Any, Facts], Expr | None]]:
    """The rules that are to be tried on ``x``."""
    rules = _RULES.get(x.op if isinstance(x, Binary) else type(x))
    if rules is None:
        return []
    left = [rule for rule, hopeless in rules if not hopeless(x, here)]
    return [] if left and _is_spelled(x) else left


def _is_spelled(e: Expr) -> bool:
    """Whether ``e`` is a number made of knobs, which is read more easily by their names."""
    t = e.type
    return isinstance(t, Scalar) and t.is_int and all(isinstance(x, Const | Knob | Binary | Call) for x in walk_expr(e))


def _choice(e: Select, facts: Facts) -> Expr | None:
    holds = facts.truth(e.cond)
    return None if holds is None else e.a if holds else e.b


def _decided(e: Binary, facts: Facts) -> Expr | None:
    if not is_integer(e.a.type):
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
    if not facts.interval(e.b).positive or not facts.whole(e):
        return None
    if e.op == "%" and (n := facts.interval(e.b).constant) is not None and facts.multiple_of(e.a, n):
        return _number(0, e)
    if facts.never_negative(e.a) and facts.below(e.a, e.b):
        return _number(0, e) if e.op == "/" else e.a
    return None


def _split(e: Binary, facts: Facts) -> Expr | None:
    """``(x + n * y) / n`` and ``% n`` by what of the sum is a multiple of ``n``."""
    if not facts.interval(e.b).positive or not facts.whole(e):
        return None
    p, n = facts.polynomial(e.a), facts.polynomial(e.b)
    if len(n) != 1 or not facts.never_negative(e.a):
        return None
    nothing: Polynomial = {}
    for counter, begun, beyond in (*_counters(p, n, e.b, facts), (nothing, nothing, nothing)):
        whole, rest = _parted(minus(p, counter), n)
        turns, rest = plus(whole, begun), plus(rest, beyond)
        if not turns or not facts.never_positive(scaled(rest, -1)):
            continue
        if not facts.never_positive(plus(minus(rest, n), constant(1))):
            left = None if counter else _built(rest, e, facts)
            if left is None:
                continue
            turns = plus(turns, {(Binary("/", left, e.b),): 1})
            rest = {(Binary("%", left, e.b),): 1}
        found = _built(turns if e.op == "/" else rest, e, facts)
        if found is not None and cost(found) < cost(e):
            return found
    return None


def _parted(p: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
    """``(q, r)`` where ``p`` is ``q * divisor + r``."""
    whole: Polynomial = {}
    rest: Polynomial = {}
    for factors, k in p.items():
        q = quotient({factors: k}, divisor)
        if q is None:
            rest[factors] = k
        else:
            whole = plus(whole, q)
    return whole, rest


def _counters(
    p: Polynomial, n: Polynomial, by: Expr, facts: Facts
) -> Iterator[tuple[Polynomial, Polynomial, Polynomial]]:
    """Counters of loops among the terms of ``p``, each as a multiple of ``n``, which is ``by``, and what is left: ``i``
    is ``t`` times and ``i - t * n`` where it is in ``t * n..t * n + n``, and ``i / n`` times where it counts by ``n``
    from a multiple."""
    number = n.get(())
    for factors, k in p.items():
        if k != 1 or len(factors) != 1 or not isinstance(v := factors[0], Var):
            continue
        counter: Polynomial = {factors: 1}
        if number is not None and len(n) == 1 and facts.multiple_of(v, number):
            yield counter, {(Binary("/", v, by),): 1}, {}
        for start in facts.bounds(v, upper=False):
            turns = quotient(start, n) if start and not _parted(start, n)[1] else None
            if turns is not None:
                yield counter, turns, minus(counter, start)


def _built(p: Polynomial, e: Expr, facts: Facts) -> Expr | None:
    """``p``, which is the value of ``e``, or of a part of it, as an expression of its type, if nothing can overflow."""
    t = e.type
    assert isinstance(t, Scalar)
    found = from_polynomial(p, t)
    parts = [x for x in walk_expr(found) if isinstance(x, Binary) and x.op in "+-*"]
    fits = _only_grows(p, facts) or _only_shrinks(p, facts) or all(facts.raw(x).fits(t) for x in parts)
    return found if fits and _converts(found, facts) else None


def _only_grows(p: Polynomial, facts: Facts) -> bool:
    """Whether no part of the sum ``p`` is larger than all of it."""
    return all(
        k > 0 and len(factors) <= 2 and all(facts.never_negative(f) for f in factors) for factors, k in p.items()
    )


def _only_shrinks(p: Polynomial, facts: Facts) -> bool:
    """Whether ``p`` is one atom less what is no larger: no part of it is larger than the atom."""
    first = {factors: k for factors, k in p.items() if k > 0}
    alone = len(first) == 1 and all(k == 1 and len(factors) == 1 for factors, k in first.items())
    return alone and _only_grows(minus(first, p), facts) and facts.never_positive(scaled(p, -1))


def _converts(e: Expr, facts: Facts) -> bool:
    return all(facts.exact(x) for x in walk_expr(e) if isinstance(x, Cast) and x.style != "bit")


def _rejoined(e: Binary, facts: Facts) -> Expr | None:
    """``x / n * n + x % n`` is x, whatever stands beside it in a sum."""
    if not facts.whole(e):
        return None
    p = facts.polynomial(e)
    for factors, k in p.items():
        for digit in (f for f in factors if isinstance(f, Binary) and f.op == "%"):
            times_it = quotient({factors: k}, {(digit,): 1})
            assert times_it is not None
            over = Binary("/", digit.a, digit.b)
            whole = _nested(over, facts) or over  # as it would stand there
            quotients = times(times({(whole,): 1}, facts.polynomial(digit.b)), times_it)
            if not quotients or any(p.get(f) != v for f, v in quotients.items()):  # none: the divisor is 0
                continue
            rest = minus(minus(p, quotients), {factors: k})
            found = _built(plus(rest, times({(digit.a,): 1}, times_it)), e, facts)
            if found is not None and cost(found) < cost(e):
                return found
    return None


def _rounded(e: Call, facts: Facts) -> Expr | None:
    """``cdiv(n * y, n)`` is y."""
    if e.fn != "cdiv" or not facts.whole(e):
        return None
    found = _built(facts.polynomial(e), e, facts)
    return found if found is not None and cost(found) < cost(e) else None


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


def _reduced(e: Binary, facts: Facts) -> Expr | None:
    """``4 * y / 32`` is ``y / 8``, where ``y`` is a quotient: what it divides is divided once."""
    t, n = e.type, facts.interval(e.b).constant
    if not isinstance(t, Scalar) or n is None or n < 1 or not facts.whole(e) or not facts.never_negative(e.a):
        return None
    p = facts.polynomial(e.a)
    shared = gcd(n, *p.values())
    (factors, k), *others = p.items() or (((), 0),)
    if others or shared != k or len(factors) != 1 or not isinstance(y := factors[0], Binary) or y.op != "/":
        return None
    if y.type != t or n % k or not is_const(y.b):
        return None
    return _nested(Binary("/", y, Const(n // k, t)), facts)


def _restored(e: Binary, facts: Facts) -> Expr | None:
    """``x / 4 * 4`` is ``x``, of which 4 is a divisor."""
    for a, b in ((e.a, e.b), (e.b, e.a)):
        if isinstance(a, Binary) and a.op == "/" and isinstance(b, Const) and a.b == b and a.type == a.a.type == e.type:
            return a.a if facts.multiple_of(a.a, int(b.value)) else None
    return None


def _number(n: int, e: Expr) -> Expr | None:
    t = e.type
    return Const(n, t) if isinstance(t, Scalar) else None


_Rule = tuple[Callable[[Any, Facts], "Expr | None"], Callable[[Any, Place], bool]]
"""What makes an expression smaller, and where that is not to be tried."""

_QUOTIENT: tuple[_Rule, ...] = (
    (_nested, refutations.not_nested),
    (_reduced, refutations.not_reduced),
    (_digit, refutations.no_digit),
    (_split, refutations.not_split),
)
_RULES: dict[object, tuple[_Rule, ...]] = {
    Select: ((_choice, refutations.chosen_of_both),),
    Unary: ((_negation, refutations.undecided),),
    Call: ((_extreme, refutations.either_extreme), (_rounded, refutations.not_rounded)),
    **dict.fromkeys(COMPARISONS | LOGICAL, ((_decided, refutations.undecided),)),
    "+": ((_rejoined, refutations.not_rejoined),),
    "*": ((_restored, refutations.not_restored),),
    "/": _QUOTIENT,
    "%": _QUOTIENT,
}
"""By the class of a node, or its operator."""

__all__ = ["simplified"]
