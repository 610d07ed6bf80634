"""Bounds of polynomials as polynomials: what is not given goes, inner variables first, for what bounds it.

    i * m + j          at most n * m - 1          where i < n, j < m, and m is not negative

:mod:`.elimination` shows that a sum is never positive; here an end is to be found, over atoms that whoever asks has
(``given``: the parameters that a launcher knows). Of several ends the plainest is taken. As there, the effort is
bounded by steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

from ktc.ir.fold import cast
from ktc.ir.nodes import Binary, Expr, Var
from ktc.ir.types import I64

from .divisors import quotient
from .elimination import Elimination, atoms, interval_of, split_by
from .polynomial import Polynomial, constant, from_polynomial, minus, plus, scaled, times

if TYPE_CHECKING:
    from .kernel_facts import Facts

DEEPEST = 16
"""Atoms that go one after the other."""

MOST_TRIED = 4
"""Ways of one atom to go, of which the plainest is taken."""

LARGEST = 1 << 24
"""A larger number is what a type or a device allows: it bounds nothing that a program says."""

STEPS = 400
"""Polynomials that are looked at for one bound."""

Given = Callable[[Expr], bool]


def upper_bound(p: Polynomial, facts: Facts, given: Given) -> Polynomial | None:
    """A polynomial over ``given`` atoms that ``p`` is never above where ``facts`` hold; None if none is found."""
    return _Search(facts, given).upper(p, DEEPEST)


def lower_bound(p: Polynomial, facts: Facts, given: Given) -> Polynomial | None:
    """A polynomial over ``given`` atoms that ``p`` is never below where ``facts`` hold; None if none is found."""
    found = upper_bound(scaled(p, -1), facts, given)
    return None if found is None else scaled(found, -1)


def largest(several: Iterable[Polynomial]) -> Polynomial:
    """A polynomial that none of ``several`` exceeds, if none of their atoms is negative."""
    return _each_term(several, max)


def least(several: Iterable[Polynomial]) -> Polynomial:
    """A polynomial that exceeds none of ``several``, if none of their atoms is negative."""
    return _each_term(several, min)


class _Search:
    def __init__(self, facts: Facts, given: Given) -> None:
        self.facts = facts
        self.given = given
        self.left = STEPS
        self.found: dict[frozenset[tuple[tuple[Expr, ...], int]], Polynomial | None] = {}
        self._known_extents: list[Polynomial] | None = None

    def upper(self, p: Polynomial, depth: int) -> Polynomial | None:
        key = frozenset(p.items())
        if key not in self.found:
            self.found[key] = None  # while it is looked for: nothing is bounded by itself
            self.found[key] = self._upper(p, depth)
        return self.found[key]

    def _upper(self, p: Polynomial, depth: int) -> Polynomial | None:
        unknown = [a for a in atoms(p) if not self.given(a)]
        if not unknown:
            return p
        for q in reversed(self.facts.conditions):  # q is never positive
            rest = minus(p, q)
            if all(map(self.given, atoms(rest))):
                return rest
        atom = max(unknown, key=lambda a: (self.facts.rank(a), repr(a)))
        split = split_by(p, atom)
        if depth == 0 or split is None:
            return None
        by, rest = split
        above = self._natural(by)
        if not above and not self._natural(scaled(by, -1)):
            return None
        best: Polynomial | None = None
        steps = sorted(self._steps(atom, by, rest, above), key=self._left_to_do)
        for several in islice(chain(steps, self._quotients(atom, by, rest, above, depth)), MOST_TRIED):
            found = self._above_all(several, depth)
            if found is not None and (best is None or _plainer(found, best)):
                best = found
            if best is not None and _cost(best)[0] == 0:  # of parameters alone
                break
        number = self._number(atom, above) if best is None else None
        return best if number is None else self._above_all([plus(scaled(by, number), rest)], depth)

    def _above_all(self, several: list[Polynomial], depth: int) -> Polynomial | None:
        """A bound of the largest of ``several``."""
        found: list[Polynomial] = []
        for p in several:
            self.left -= 1
            bound = self.upper(p, depth - 1) if self.left > 0 else None
            if bound is None:
                return None
            found.append(bound)
        if len(found) > 1 and not all(self.facts.never_negative(a) for p in found for a in atoms(p)):
            return None
        return found[0] if len(found) == 1 else largest(found)

    def _natural(self, p: Polynomial) -> bool:
        """Whether ``p`` is never negative: as it stands, or as a product of what is not."""
        if self._plainly_natural(p):
            return True
        parts = ((q, quotient(p, q)) for q in self._extents())
        return any(rest is not None and rest != p and self._natural(rest) for _, rest in parts)

    def _plainly_natural(self, p: Polynomial) -> bool:
        low = interval_of(p, self.facts).low
        return (low is not None and low >= 0) or Elimination(self.facts).never_positive(scaled(p, -1))

    def _extents(self) -> list[Polynomial]:
        """Sums of given atoms that guards compare with, as in ``y < h - r + 1``, and that are never negative there."""
        if self._known_extents is None:
            ends = ({f: -k for f, k in q.items() if all(map(self.given, f))} for q in self.facts.conditions)
            sums = [x for end in ends if sum(bool(f) for f in end) > 1 for x in (end, plus(end, constant(1)))]
            unlike = [x for k, x in enumerate(sums) if x not in sums[:k]]
            self._known_extents = [x for x in unlike if self._plainly_natural(x)]
        return self._known_extents

    def _left_to_do(self, several: list[Polynomial]) -> tuple[int, int]:
        """How much is left to go, and how plain what stays is."""
        left = {a for p in several for a in atoms(p) if not self.given(a)}
        return len(left), sum(len(p) for p in several)

    def _steps(self, atom: Expr, by: Polynomial, rest: Polynomial, above: bool) -> Iterator[list[Polynomial]]:
        """Lists of polynomials, of each of which one bounds ``by * atom + rest``: by guards, the latest of them first,
        and by what the atom is."""
        for q in reversed(self.facts.conditions):
            split = split_by(q, atom)
            k = split[0].get((), 0) if split is not None and set(split[0]) == {()} else 0
            if split is not None and (k > 0 if above else k < 0) and all(n % k == 0 for n in by.values()):
                yield [minus(rest, times({f: n // k for f, n in by.items()}, split[1]))]
        for ends in Elimination(self.facts).ends(atom, above):
            yield [plus(times(by, end), rest) for end in ends]

    def _number(self, atom: Expr, above: bool) -> int | None:
        """The largest, or least, value of ``atom``, if it is known."""
        own = self.facts.interval(atom)
        n = own.high if above else own.low
        return n if n is not None and abs(n) <= LARGEST else None

    def _quotients(
        self, e: Expr, by: Polynomial, rest: Polynomial, above: bool, depth: int
    ) -> Iterator[list[Polynomial]]:
        """``x / n`` is no larger than that of a larger ``x``, where n is given."""
        f = self.facts
        if not above or not isinstance(e, Binary) or e.op != "/" or not self.given(e.b):
            return
        high = self.upper(f.polynomial(e.a), depth - 1) if f.interval(e.b).positive and f.exact(e) else None
        if high is not None:
            end = Binary("/", from_polynomial(high, I64), cast(e.b, I64))
            yield [plus(times(by, {(end,): 1}), rest)]


def _plainer(p: Polynomial, q: Polynomial) -> bool:
    """Whether the upper bound ``p`` is the better one: nowhere larger than ``q``, or else the plainer sum."""
    if _cost(p)[0] == _cost(q)[0]:
        more = [t for t in {**p, **q} if p.get(t, 0) > q.get(t, 0)]
        less = [t for t in {**p, **q} if p.get(t, 0) < q.get(t, 0)]
        if not more or not less:
            return bool(less)
    return _cost(p) < _cost(q)


def _cost(p: Polynomial) -> tuple[int, int]:
    """How plain a sum is: extents of the launch are rounded up, and parameters are not."""
    return sum(not isinstance(f, Var) for fs in p for f in fs), len(p)


def _each_term(several: Iterable[Polynomial], pick: Callable[..., int]) -> Polynomial:
    ps = list(several)
    terms = dict.fromkeys(t for p in ps for t in p)
    return {t: k for t in terms if (k := pick(p.get(t, 0) for p in ps))}


__all__ = ["Given", "largest", "least", "lower_bound", "upper_bound"]
