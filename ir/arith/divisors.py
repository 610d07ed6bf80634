"""What divides a polynomial, and what it leaves: from its atoms, and from what is known of other polynomials.

known                             shows
    (batch * length) % 8 == 0         8 divides 3 * batch * heads * length + 16
    n % ($T * $U) == 0                $T divides n * m
    for k in $T..n step $T            $T divides k
    (d / 2) % 8 == 0, 2 divides d     16 divides d
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ktc.ir.nodes import Call, Expr, For, Var

from .congruence import BINARY as CONGRUENT
from .congruence import Congruence
from .known_symbols import counted_up
from .loop_counters import rises
from .polynomial import Polynomial, minus, plus, times

if TYPE_CHECKING:
    from .kernel_facts import Facts

MOST_TURNS = 8
"""How often what is known of a polynomial is taken off another one."""


def residue(p: Polynomial, facts: Facts) -> Congruence:
    """What ``p`` leaves when it is divided."""
    out = _by_terms(p, facts)
    for q, left in facts.residues:
        for turns, rest in _taken_off(p, q):
            out = out.meet(CONGRUENT["+"](CONGRUENT["*"](_by_terms(turns, facts), left), _by_terms(rest, facts)))
    return out


def divides(d: Polynomial, p: Polynomial, facts: Facts) -> bool:
    """Whether ``d``, of one term, is shown to divide ``p``."""
    return _divides(d, p, _Known(facts, tuple(m for m, by in facts.multiples if quotient(by, d) is not None)))


def quotient(p: Polynomial, divisor: Polynomial) -> Polynomial | None:
    """``p / divisor`` where that is a polynomial."""
    if len(divisor) != 1:
        return _long_quotient(p, divisor) if divisor else None
    ((by, n),) = divisor.items()
    out: Polynomial = {}
    for factors, k in p.items():
        left = list(factors)
        for atom in by:
            if atom not in left:
                return None
            left.remove(atom)
        if k % n:
            return None
        out[tuple(left)] = k // n
    return out


def _long_quotient(p: Polynomial, divisor: Polynomial) -> Polynomial | None:
    """The same by a divisor of several terms, leading term by leading term."""
    lead = max(divisor, key=_degree)
    out: Polynomial = {}
    while p:
        most = max(p, key=_degree)
        part = quotient({most: p[most]}, {lead: divisor[lead]})
        if part is None:
            return None
        out, p = plus(out, part), minus(p, times(part, divisor))
    return out


def _degree(factors: tuple[Expr, ...]) -> tuple[int, list[str]]:
    """By which terms are sorted, so that products keep the order of their factors."""
    return len(factors), sorted(map(repr, factors))


class _Known(NamedTuple):
    """``multiples``: polynomials that the divisor is known to divide, and that may still be taken off.

    Taking one off can bring in atoms whose arguments it can be taken off again, without end: within what is left of a
    polynomial, it is not tried again.
    """

    facts: Facts
    multiples: tuple[Polynomial, ...]

    def without(self, multiple: Polynomial) -> _Known:
        return self._replace(multiples=tuple(m for m in self.multiples if m is not multiple))


def _divides(d: Polynomial, p: Polynomial, known: _Known) -> bool:
    rest = _undivided(p, d, known)
    return not rest or any(
        not _undivided(r, d, known.without(multiple))
        for multiple in known.multiples
        for _, r in _taken_off(rest, multiple)
    )


def _undivided(p: Polynomial, d: Polynomial, known: _Known) -> Polynomial:
    """The terms of ``p`` that ``d`` does not divide one by one."""
    return {
        factors: k
        for factors, k in p.items()
        if quotient({factors: k}, d) is None and not any(_atom_divided(a, d, known) for a in factors)
    }


def _atom_divided(atom: Expr, d: Polynomial, known: _Known) -> bool:
    """Whether ``d`` divides both of two, or where a loop begins and what its counter moves on by."""
    facts = known.facts
    match atom:
        case Call(fn="min" | "max", args=args):
            return all(facts.whole(a) and _divides(d, facts.polynomial(a), known) for a in args)
        case Var(sym=s) if isinstance(loop := facts.symbols.loops.get(s), For):
            step = counted_up(loop)
            if (
                step is None
                or step[0] != "+"
                or not facts.symbols.steady(loop.init)
                or not facts.symbols.steady(step[1])
            ):
                return False
            ends = (facts.polynomial(loop.init), facts.polynomial(step[1]))
            return all(_divides(d, e, known) for e in ends) and rises(loop, facts)
    return False


def _by_terms(p: Polynomial, facts: Facts) -> Congruence:
    out = Congruence.point(0)
    for factors, k in p.items():
        term = Congruence.point(k)
        for a in factors:
            term = CONGRUENT["*"](term, facts.congruence(a))
        out = CONGRUENT["+"](out, term)
    return out


def _taken_off(p: Polynomial, q: Polynomial) -> Iterator[tuple[Polynomial, Polynomial]]:
    """``(t, p - t * q)`` for polynomials ``t`` such that terms of ``p`` go with the largest one of ``q``."""
    if not q or set(q) == {()}:
        return
    factors = max(q, key=len)
    turns: Polynomial = {}
    rest = p
    for _ in range(MOST_TURNS):
        found = (quotient({f: k}, {factors: q[factors]}) for f, k in rest.items())
        t = next((t for t in found if t), None)
        if t is None:
            return
        turns = {**turns, **{f: turns.get(f, 0) + k for f, k in t.items()}}
        rest = minus(rest, times(t, q))
        yield turns, rest


__all__ = ["divides", "quotient", "residue"]
