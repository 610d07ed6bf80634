"""Proofs that a polynomial is never positive: its variables go one by one, inner ones first, for what bounds them.

``row * cols + col - rows * cols + 1`` is linear in ``col``, with a coefficient that is not negative: it is no larger
with ``cols - 1`` in its place, and that no larger with ``rows - 1`` in place of ``row``, which leaves 0. Of quotients
is known that ``(x / n) * n`` is in ``x - n + 1 .. x`` (``.. x + n - 1`` where x may be negative), of ``cdiv`` that
``cdiv(x, n) * n`` is in ``x .. x + n - 1``. What is left in the end are numbers. The effort is bounded by steps, not by
time: the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ktc.ir.nodes import Binary, Call, Expr, Select

from .divisors import quotient
from .interval import ANY, NATURAL, Interval
from .interval_operators import BINARY
from .polynomial import Polynomial, constant, minus, plus, scaled, times

if TYPE_CHECKING:
    from .kernel_facts import Facts

STEPS = 64
"""Polynomials that a proof looks at, if nobody asks for less."""

DEEPEST = 12
"""Variables that go on the way to a number."""

MOST_TERMS = 40

Step = list[Polynomial]
"""Polynomials such that the one before is not positive if none of them is."""


class Elimination:
    """One proof, with what ``facts`` know."""

    def __init__(self, facts: Facts, steps: int = STEPS) -> None:
        self.facts = facts
        self.left = steps
        self.seen: set[frozenset[tuple[tuple[Expr, ...], int]]] = set()

    def never_positive(self, p: Polynomial, depth: int = 0) -> bool:
        """Whether ``p <= 0`` is shown."""
        within = interval_of(p, self.facts)
        if within.high is not None and within.high <= 0:
            return True
        if within.positive:
            return False
        if any(_no_larger(p, q) for q in self.facts.conditions):
            return True
        key = frozenset(p.items())
        if key in self.seen or depth > DEEPEST or len(p) > MOST_TERMS:
            return False
        self.seen.add(key)
        for step in self._steps(p):
            if self.left <= 0:
                return False
            self.left -= 1
            if all(self.never_positive(q, depth + 1) for q in step):
                return True
        return False

    def _steps(self, p: Polynomial) -> Iterator[Step]:
        for atom in sorted(atoms(p), key=self.facts.rank, reverse=True):
            split = split_by(p, atom)
            if split is not None:
                yield from self._without(atom, *split)
        for q in self.facts.conditions:
            yield from ([minus(p, scaled(q, n))] for n in _multiples(p, q))

    def _without(self, atom: Expr, by: Polynomial, rest: Polynomial) -> Iterator[Step]:
        """Steps from ``by * atom + rest`` to polynomials without ``atom``."""
        sign = interval_of(by, self.facts)
        upper = sign.low is not None and sign.low >= 0
        if not upper and not (sign.high is not None and sign.high <= 0):
            return
        for bounds in self.ends(atom, upper):
            yield [plus(times(by, b), rest) for b in bounds]
        yield from self._divided(atom, by, rest, upper)
        own = self.facts.interval(atom)
        end = own.high if upper else own.low
        if end is not None:
            yield [plus(scaled(by, end), rest)]

    def ends(self, atom: Expr, upper: bool) -> Iterator[list[Polynomial]]:
        """Lists of polynomials: one of each list is an upper bound of ``atom`` (a lower one unless ``upper``)."""
        f = self.facts
        yield from ([b] for b in f.bounds(atom, upper))
        one = constant(-1 if upper else 1)
        for q in f.conditions:
            split = split_by(q, atom)
            if split is not None and split[0] == scaled(one, -1):
                yield [scaled(split[1], -1) if upper else split[1]]
        match atom:
            case Call(fn="min" | "max" as fn, args=args) if all(f.whole(a) for a in args):
                choices = [f.polynomial(a) for a in args]
                yield from ([c] for c in choices) if (fn == "min") == upper else [choices]
            case Select(a=a, b=b):
                yield [f.polynomial(a), f.polynomial(b)]
            case Binary(op="%", a=a, b=b) if upper and f.interval(b).positive:
                yield [plus(f.polynomial(b), constant(-1))]
                if f.interval(a).never_negative:
                    yield [f.polynomial(a)]

    def _divided(self, atom: Expr, by: Polynomial, rest: Polynomial, upper: bool) -> Iterator[Step]:
        """Steps that take a quotient off which a multiple of its divisor stands before."""
        found = self._quotient(atom, upper)
        if found is None:
            return
        divisor, bound, alone = found
        turns = quotient(by, divisor)
        if turns is not None:
            yield [plus(times(turns, bound), rest)]
        number = divisor.get((), 0)
        if turns is None and set(divisor) == {()} and number > 1:
            yield [plus(times(by, bound), scaled(rest, number))]  # all of it, as often as the divisor says
        if alone is not None:
            yield [plus(times(by, alone), rest)]

    def _quotient(self, atom: Expr, upper: bool) -> tuple[Polynomial, Polynomial, Polynomial | None] | None:
        """Of a quotient by what is positive: its divisor, a bound of the product of both, and one of it alone."""
        f = self.facts
        match atom:
            case Binary(op="/", a=a, b=b):
                rounded = False
            case Call(fn="cdiv", args=(a, b)):
                rounded = True
            case _:
                return None
        if not f.interval(b).positive or not f.exact(atom):
            return None
        natural = f.interval(a).never_negative
        if rounded and not natural:
            return None  # of which implementations differ
        x, n = f.polynomial(a), f.polynomial(b)
        less = plus(n, constant(-1))
        alone = None if not natural else x if upper else constant(0)
        if rounded:
            return n, plus(x, less) if upper else x, alone
        above = x if natural else plus(x, less)
        return n, above if upper else minus(x, less), alone


def atoms(p: Polynomial) -> list[Expr]:
    """What ``p`` is made of, each once."""
    return list(dict.fromkeys(a for factors in p for a in factors))


def split_by(p: Polynomial, atom: Expr) -> tuple[Polynomial, Polynomial] | None:
    """``(c, r)`` where ``p`` is ``c * atom + r``, neither of which mentions it; None where it is not linear in it."""
    by: Polynomial = {}
    rest: Polynomial = {}
    for factors, k in p.items():
        n = factors.count(atom)
        if n > 1:
            return None
        if n:
            at = factors.index(atom)
            by[factors[:at] + factors[at + 1 :]] = k
        else:
            rest[factors] = k
    return (by, rest) if by else None


def interval_of(p: Polynomial, facts: Facts) -> Interval:
    """What ``p`` lies in, term by term."""
    low: int | None = 0
    high: int | None = 0
    for factors, k in p.items():
        term = _scaled(facts.interval(factors[0]), k) if factors else Interval(k, k)
        for a in factors[1:]:
            term = BINARY["*"](term, facts.interval(a))
        if term.low is None and term.high is None:
            return ANY
        if len(factors) == 2 and k > 0 and factors[0] == factors[1]:
            term = term.meet(NATURAL)  # a square
        low = None if low is None or term.low is None else low + term.low
        high = None if high is None or term.high is None else high + term.high
    return Interval(low, high)


def _scaled(a: Interval, k: int) -> Interval:
    low, high = (a.low, a.high) if k > 0 else (a.high, a.low)
    return Interval(None if low is None else k * low, None if high is None else k * high)


def _no_larger(p: Polynomial, q: Polynomial) -> bool:
    """Whether ``p`` is ``q`` less a number that is not negative."""
    return (
        abs(len(p) - len(q)) <= 1
        and len(p.keys() ^ q.keys()) <= 1
        and (left := minus(p, q)).keys() <= {()}
        and left.get((), 0) <= 0
    )


def _multiples(p: Polynomial, q: Polynomial) -> list[int]:
    """Numbers of times that ``q`` may be taken from ``p`` such that a term goes."""
    found = {p[t] // k for t, k in q.items() if t and t in p and p[t] % k == 0 and p[t] // k > 0}
    return sorted(found)


__all__ = ["Elimination", "atoms", "interval_of", "split_by"]
