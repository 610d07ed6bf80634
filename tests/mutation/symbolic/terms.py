"""Symbolic values, hash-consed: equal terms are equal values, whatever the inputs.

A term is a number that stands for a node in one table. Building a node applies identities that hold for every value:
integer arithmetic on known operands, maxima as sets, ``c ? a : a``, conversions that change nothing, the sign in front
of a product. Sums become multisets without zeros where the program may reassociate (``loose``; the sign of a zero is no
part of what is compared there); otherwise only ``a + b = b + a``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ktc.ir.types import Scalar
from tests.mutation.zeros.formats import NONE, WIDER, Held, converted, exactly

from .effort import Effort

Term = int
Node = tuple[Any, ...]

PREDICATES = frozenset({"isinf", "isnan", "isfinite", "signbit", "!"})


class Terms:
    """One table. What is opaque has the narrow types that hold its value."""

    def __init__(self, loose: bool, effort: Effort | None = None) -> None:
        self.loose = loose
        self.effort = effort if effort is not None else Effort()
        self._nodes: list[Node] = []
        self._known: dict[Node, Term] = {}
        self._held: dict[Term, Held] = {}
        self._given: dict[tuple[Term, Term], Term] = {}
        self._put_together: dict[Node, Term] = {}
        """Sums and maxima by what was asked for: threads of a block put the same ones together, each for itself."""

    def node(self, t: Term) -> Node:
        return self._nodes[t]

    def make(self, *node: Any) -> Term:
        t = self._known.get(node)
        if t is None:
            t = self._known[node] = len(self._nodes)
            self._nodes.append(node)
        return t

    def opaque(self, held: Held, *what: Any) -> Term:
        t = self.make("opaque", *what)
        self._held[t] = held
        return t

    def const(self, value: Any, kind: str) -> Term:
        return self.make("const", repr(value), kind)

    def number(self, t: Term) -> float | None:
        n = self._nodes[t]
        return float(n[1]) if n[0] == "const" and n[1] not in ("True", "False") else None

    # ------------------------------------------------------------------------------------------------- operators

    def add(self, a: Term, b: Term, kind: str) -> Term:
        if not self.loose:
            return self.make("+", kind, *sorted((a, b)))
        asked = ("+", kind, *sorted((a, b)))
        if asked not in self._put_together:
            self._put_together[asked] = self._total([(a, 1), (b, 1)], kind)
        return self._put_together[asked]

    def _total(self, parts: Iterable[tuple[Term, int]], kind: str) -> Term:
        """The sum of terms, each so many times."""
        total: Counter[Term] = Counter()
        for t, times in parts:
            n = self._nodes[t]
            if n[0] == "sum" and n[1] == kind:
                total.update({part: k * times for part, k in n[2]})
            elif n[0] == "neg":
                total[n[1]] -= times
            else:
                total[t] += times
        self.effort.spend(len(total))
        kept = sorted((t, k) for t, k in total.items() if k and self.number(t) != 0.0)
        items = tuple(kept) or ((self.const(0.0, kind), 1),)
        if len(items) == 1 and items[0][1] == 1:
            return items[0][0]
        if items and items[0][1] < 0:
            return self.negate(self.make("sum", kind, tuple((t, -k) for t, k in items)))
        return self.make("sum", kind, items)

    def negate(self, a: Term) -> Term:
        n = self._nodes[a]
        if n[0] == "const":
            return self.const(-float(n[1]), n[2])
        return n[1] if n[0] == "neg" else self.make("neg", a)

    def subtract(self, a: Term, b: Term, kind: str) -> Term:
        if self.loose:
            return self.add(a, self.negate(b), kind)
        return self.make("-", kind, a, b) if a <= b else self.negate(self.make("-", kind, b, a))

    def multiply(self, a: Term, b: Term, kind: str) -> Term:
        signs, factors = 0, []
        for t in (a, b):
            n = self._nodes[t]
            signs += n[0] == "neg"
            factors.append(n[1] if n[0] == "neg" else t)
        product = self.make("*", kind, *sorted(factors))
        return self.negate(product) if signs % 2 else product

    def extreme(self, fn: str, a: Term, b: Term) -> Term:
        asked = (fn, *sorted((a, b)))
        if asked not in self._put_together:
            self._put_together[asked] = self.extremes(fn, (a, b))
        return self._put_together[asked]

    def extremes(self, fn: str, parts: Iterable[Term]) -> Term:
        """Maxima and minima: sets without the identity, and without what another member exceeds anyway: numbers, and
        elements of a class of which an earlier one is there."""
        members: set[Term] = set()
        for t in parts:
            n = self._nodes[t]
            members |= set(n[1]) if n[0] == fn else {t}
        self.effort.spend(len(members))
        members = self._first_of_classes(fn, members)
        numbers = {t: v for t in members if (v := self.number(t)) is not None}
        if numbers:
            best = (max if fn == "max" else min)(numbers, key=lambda t: numbers[t])
            members -= set(numbers) - {best}
            below = numbers[best] <= 0 and any(self._nodes[t][:2] == ("call", "abs") for t in members)
            identity = numbers[best] == (float("-inf") if fn == "max" else float("inf"))
            if len(members) > 1 and (identity or (fn == "max" and below)):
                members.discard(best)
        return next(iter(members)) if len(members) == 1 else self.make(fn, tuple(sorted(members)))

    def _first_of_classes(self, fn: str, members: set[Term]) -> set[Term]:
        """``members`` without what a class of elements of the same values that starts earlier covers."""
        firsts: dict[Node, Term] = {}
        for t in members:
            n = self._nodes[t]
            if n[:2] == ("class", fn):
                first = firsts.get(n[:-1])
                firsts[n[:-1]] = t if first is None or n[-1] < self._nodes[first][-1] else first
        return {t for t in members if self._nodes[t][:2] != ("class", fn)} | set(firsts.values()) if firsts else members

    def choose(self, c: Term, a: Term, b: Term) -> Term:
        n = self._nodes[c]
        if n[0] == "const":
            return a if n[1] not in ("False", "0") else b
        a, b = self._under(c, a, 1), self._under(c, b, 2)
        if a == b:
            return a
        if (self._nodes[a][:2], self._nodes[b][:2]) == (("const", "True"), ("const", "False")):
            return c
        if a == c and self._nodes[b][:2] == ("const", "False"):
            return c
        if b == c and self._nodes[a][:2] == ("const", "True"):
            return c
        return self.make("ite", c, a, b)

    def _under(self, c: Term, t: Term, branch: int) -> Term:
        """``t`` where ``c`` is decided."""
        n = self._nodes[t]
        while n[0] == "ite" and n[1] == c:
            t = n[1 + branch]
            n = self._nodes[t]
        return t

    def given(self, t: Term, condition: Term) -> Term:
        """``t`` where ``condition`` holds, in its choices and in what maxima and sums are taken of."""
        if self._nodes[condition][:2] == ("const", "True"):
            return t
        known = self._given.get((t, condition))
        if known is None:
            known = self._given[t, condition] = self._where(t, *self._decided(condition))
        return known

    def _where(self, t: Term, true: set[Term], false: set[Term]) -> Term:
        n = self._nodes[t]
        if n[0] == "ite" and (n[1] in true or n[1] in false):
            return self._where(n[2] if n[1] in true else n[3], true, false)
        if n[0] not in ("max", "min", "sum", "neg"):
            return t
        old = [n[1]] if n[0] == "neg" else [part for part, _ in n[2]] if n[0] == "sum" else list(n[1])
        self.effort.spend(len(old))
        new = [self._where(part, true, false) for part in old]
        if new == old:
            return t
        if n[0] == "neg":
            return self.negate(new[0])
        if n[0] == "sum":
            return self._total(zip(new, (k for _, k in n[2])), n[1])
        return self.extremes(n[0], new)

    def implies_any(self, condition: Term, others: set[Term]) -> bool:
        """Whether ``condition`` is seen to imply one of ``others``."""
        return self.const(True, "bool") in others or not others.isdisjoint(self._decided(condition)[0])

    def _decided(self, condition: Term) -> tuple[set[Term], set[Term]]:
        true, false, todo = set(), set(), [condition]
        while todo:
            c = todo.pop()
            true.add(c)
            n = self._nodes[c]
            if n[0] == "ite" and self._nodes[n[3]][:2] == ("const", "False"):
                todo += n[1:3]
            if n[:2] == ("call", "!"):
                false.add(n[2])
        return true, false

    def predicate(self, fn: str, a: Term) -> Term:
        """``fn`` of a value, pushed into its cases."""
        n = self._nodes[a]
        if n[0] == "ite":
            return self.choose(n[1], self.predicate(fn, n[2]), self.predicate(fn, n[3]))
        value = self.number(a)
        if fn == "!" and n[0] == "const":
            return self.const(n[1] in ("False", "0"), "bool")
        if value is not None and fn in _DECIDE:
            return self.const(_DECIDE[fn](value), "bool")
        return self.make("call", fn, a)

    # ------------------------------------------------------------------------------------------------ conversions

    def convert(self, a: Term, src: Scalar, dst: Scalar) -> Term:
        """A float to another float type: nothing happens where the new type holds the value."""
        if dst.bits > src.bits or dst.name in self.held(a):
            return a
        t = self.make("cast", dst.name, a)
        self._held[t] = converted(self.held(a), dst)
        return t

    def held(self, a: Term) -> Held:
        """The narrow types that hold the value of ``a``."""
        n = self._nodes[a]
        if a in self._held:
            return self._held[a]
        if n[0] == "const":
            return NONE if n[2] in ("int", "bool") else exactly(float(n[1]))
        if n[0] in ("max", "min"):
            return frozenset.intersection(*map(self.held, n[1]))
        if n[0] == "ite":
            return self.held(n[2]) & self.held(n[3])
        if n[0] == "class":  # of no elements it is infinite
            return self.held(n[2]) & WIDER
        if n[0] == "neg" or n[:2] == ("call", "abs"):
            return self.held(n[-1])
        return NONE


_DECIDE: dict[str, Callable[[float], bool]] = {
    "isinf": lambda v: v in (float("inf"), float("-inf")),
    "isnan": lambda v: v != v,
    "isfinite": lambda v: v == v and abs(v) != float("inf"),
}

__all__ = ["PREDICATES", "Term", "Terms"]
