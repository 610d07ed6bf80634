"""Facts against brute force: what they say of random expressions, at points and on every arrival in a nest of loops."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from ktc.ir.arith import REWRITES, Facts, Trust, simplified
from ktc.ir.arith.algebra import Memo, value
from ktc.ir.arith.arrivals import Place
from ktc.ir.arith.concrete import Numbers
from ktc.ir.arith.polynomial import Polynomial
from ktc.ir.arith.symbolic_bounds import lower_bound, upper_bound
from ktc.ir.arith.visiting import visited
from ktc.ir.kernel import Param
from ktc.ir.nodes import Binary, Body, Const, Continue, Decl, Eval, Expr, For, If, Par, Stmt, Var, fresh
from ktc.ir.types import I32
from ktc.ir.verifier.type_rules import check_expr
from ktc.ir.walk import walk_expr

from .drawn import Digits, Drawing, Nest, Point, Tiles, kernel, parameters, point

POINTS = 24
ROUNDS = 30
"""Rounds of one loop that are looked at."""

MOST_ARRIVALS = 400


class Wrong(AssertionError):
    """A fact that a point contradicts."""


def number(e: Expr, at: Point, memo: Memo | None = None) -> int | None:
    return value(e, Numbers(at), memo)


@dataclass
class Claims:
    """What ``facts`` say of a few expressions, once; each arrival at the place is held against it."""

    facts: Facts
    a: Expr
    b: Expr
    condition: Expr
    place: Place | None = None
    """The same place, with the states that arrive at it."""

    def __post_init__(self) -> None:
        f = self.facts
        self.intervals = [(e, f.interval(e)) for e in (self.a, self.b, self.condition)]
        self.residues = [(e, f.congruence(e)) for e in (self.a, self.b)]
        self.truth = f.truth(self.condition)
        self.smaller = [(e, simplified(e, f)) for e in (self.a, self.b, self.condition)]
        self.relations = {
            "below": f.below(self.a, self.b), "above": f.below(self.b, self.a), "equal": f.equal(self.a, self.b),
            "natural": f.never_negative(self.a), "even": f.multiple_of(self.a, 8),
        }  # fmt: skip
        self.ends = None
        if f.whole(self.a):
            p = f.polynomial(self.a)
            self.ends = [find(p, f, self.is_given) for find in (lower_bound, upper_bound)]
        if self.place is not None:
            self.check_states(self.place)

    def check_states(self, place: Place) -> None:
        """What is shown is shown at the place too: no state of those that arrive there says otherwise."""
        if place.truth(self.condition) != self.truth:
            raise Wrong(f"a state keeps {shown(self.condition)} from being shown {self.truth}")
        for e, smaller in self.smaller:
            if (found := simplified(e, place)) != smaller:
                raise Wrong(f"a state keeps {shown(e)} from becoming {shown(smaller)}: {shown(found)}")
        for w in place.states():
            for e, within in self.intervals:
                if (n := w.value(e)) is not None and n not in within:
                    raise Wrong(f"in state {w.number} {shown(e)} is {n}, not in {within}")
            for e, residue in self.residues:
                if (n := w.value(e)) is not None and n not in residue:
                    raise Wrong(f"in state {w.number} {shown(e)} is {n}, not in {residue}")

    def is_given(self, e: Expr) -> bool:
        """Whether ``e`` is made of parameters alone, in which bounds are found."""
        given = {p.sym for p in self.facts.kernel.params}
        return all(x.sym in given for x in walk_expr(e) if isinstance(x, Var))

    def check_types(self) -> None:
        """What was simplified is of the type that it had, and so are the operands within it."""
        for e, smaller in self.smaller:
            wrong = [why for x in walk_expr(smaller) for _, why in check_expr(x, set())]
            if wrong or smaller.type != e.type:
                raise Wrong(f"{shown(e)} became {shown(smaller)}: {wrong or smaller.type}")

    def check(self, at: Point, counts: Counter[str]) -> None:
        memo: Memo = {}  # most of what is asked at one point is asked of the same expressions
        for e, within in self.intervals:
            n = number(e, at, memo)
            if n is not None and n not in within:
                raise Wrong(f"{n} is not in {within}: {shown(e)} at {places(at)}")
        for e, residue in self.residues:
            n = number(e, at, memo)
            if n is not None and n not in residue:
                raise Wrong(f"{n} is not in {residue}: {shown(e)} at {places(at)}")
        for e, smaller in self.smaller:
            n = number(e, at, memo)
            if n is not None and smaller != e:
                counts["simplified"] += 1
                if number(smaller, at, memo) != n:
                    raise Wrong(f"{shown(e)} is {n}, {shown(smaller)} is {number(smaller, at, memo)} at {places(at)}")
        holds = number(self.condition, at, memo)
        if self.truth is not None and holds is not None:
            counts["decided"] += 1
            if holds != self.truth:
                raise Wrong(f"{shown(self.condition)} is {holds} at {places(at)}")
        self._check_relations(at, counts, memo)

    def _check_relations(self, at: Point, counts: Counter[str], memo: Memo) -> None:
        x, y = number(self.a, at, memo), number(self.b, at, memo)
        for end, way in zip(self.ends or (), (1, -1)):
            limit = None if end is None or x is None else polynomial_at(end, at, memo)
            if limit is not None:
                counts["bounded"] += 1
                if (x - limit) * way < 0:
                    raise Wrong(f"{x} is beyond {limit}: {shown(self.a)} at {places(at)}")
        if x is None or y is None:
            counts["without a value"] += 1
            return
        counts["checked"] += 1
        true = {"below": x < y, "above": y < x, "equal": x == y, "natural": x >= 0, "even": x % 8 == 0}
        for relation, said in self.relations.items():
            counts[relation] += said
            if said and not true[relation]:
                raise Wrong(f"not {relation}: {x} {shown(self.a)}, {y} {shown(self.b)} at {places(at)}")


def polynomial_at(p: Polynomial, at: Point, memo: Memo) -> int | None:
    """The value of ``p``; None where an atom has none."""
    total = 0
    for factors, k in p.items():
        values = [number(f, at, memo) for f in factors]
        if None in values:
            return None
        total += k * math.prod(v for v in values if v is not None)
    return total


def claims(facts: Facts, d: Drawing, place: Place | None = None) -> Claims:
    t, u = d.type(), d.type()
    a, b = d.expression(t, d.rng.randint(1, 4)), d.expression(u, d.rng.randint(0, 3))
    return Claims(facts, a, b, d.condition(3), place)


def judge_points(rng: Random, counts: Counter[str]) -> None:
    """Random expressions over parameters, under a random guard."""
    small = bool(rng.randrange(3))
    params = parameters(rng, small)
    d = Drawing(rng, [p.sym for p in params], small)
    trust = REWRITES if rng.randrange(4) else Trust(no_overflow=False, parameters=True)
    guard, assumed = d.condition(2), d.condition(1)
    everywhere = Facts(kernel(params, assumed=(assumed,)), trust)
    facts, place = everywhere.under(guard), Place(everywhere.kernel, lambda: everywhere).under(guard)
    said = [claims(facts, d, place) for _ in range(2)]
    counts["cases"] += len(said)
    for c in said:
        c.check_types()
    for _ in range(POINTS):
        at = point(rng, params)
        if number(guard, at) and number(assumed, at):
            for c in said:
                c.check(at, counts)


def judge_nest(rng: Random, counts: Counter[str]) -> None:
    """A random nest of loops, run for a few sizes: on each arrival at a statement its facts hold."""
    params = parameters(rng, small=True)
    body = Nest(rng, params).body([p.sym for p in params], 3)
    facts = Facts(kernel(params, body), REWRITES)
    scopes = dict(in_scope(body, [p.sym for p in params]))
    said: dict[int, Claims] = {}
    for (s, here), (_, place) in zip(facts.visit(body), visited(body, Place(facts.kernel, lambda: facts))):
        said[id(s)] = claims(here, Drawing(rng, scopes[id(s)], small=True), place)
    anywhere = {id(s): claims(facts, Drawing(rng, scopes[id(s)], small=True)) for s, _ in facts.visit(body)}
    counts["cases"] += len(said) + len(anywhere)
    for _ in range(3):
        run = Run(said, anywhere, counts)
        run.body(body, dict(point(rng, params)))


def judge_tiles(rng: Random, counts: Counter[str]) -> None:
    """Loops over tiles of known and unknown sizes: their counters' digits, and the bounds of the last tile."""
    by = rng.choice((1, 1, 4, 8))
    params = (Param(fresh("n", I32), range=(1, 9)), Param(fresh("rows", I32), range=(rng.choice((-3, 0, 1)), 40)))
    assumed = Binary("==", Binary("%", Binary("*", Var(params[1].sym), Const(3, I32)), Const(by, I32)), Const(0, I32))
    tiles = Tiles(rng, params)
    body = tiles.body()
    facts = Facts(kernel(params, body, (assumed,)), REWRITES)
    scopes = dict(in_scope(body, [p.sym for p in params]))
    said: dict[int, Claims] = {}
    for (s, here), (_, place) in zip(facts.visit(body), visited(body, Place(facts.kernel, lambda: facts))):
        size, terms = tiles.digits.sizes, [Var(v) for v in scopes[id(s)]]
        found = Claims(here, *(Digits(rng, size, tuple(terms)).expression(I32, 1) for _ in "ab"),
                       Digits(rng, size, tuple(terms)).condition(), place)  # fmt: skip
        if isinstance(s, Eval):
            found.smaller.append((s.value, simplified(s.value, here)))
        said[id(s)] = found
    counts["cases"] += len(said)
    for _ in range(8):
        at = dict(point(rng, params))
        if number(assumed, at):
            Run(said, {}, counts).body(body, at)


def in_scope(body: Body, scope: list) -> list[tuple[int, list]]:
    out = []
    scope = list(scope)
    for s in body:
        out.append((id(s), list(scope)))
        if isinstance(s, Decl):
            scope.append(s.sym)
        elif isinstance(s, If):
            out += in_scope(s.then, scope) + in_scope(s.orelse, scope)
        elif isinstance(s, For | Par):
            out += in_scope(s.body, [*scope, s.var])
    return out


class Undefined(Exception):
    """The program has no meaning from here on."""


@dataclass
class Run:
    said: dict[int, Claims]
    anywhere: dict[int, Claims]
    counts: Counter[str]
    arrivals: int = field(default=0)

    def body(self, body: Body, at: dict[Expr, int]) -> None:
        try:
            self.statements(body, at)
        except Undefined:
            self.counts["runs without a meaning"] += 1

    def statements(self, body: Body, at: dict[Expr, int]) -> bool:
        """Whether the rest of what is around ``body`` runs too."""
        for s in body:
            self.arrivals += 1
            if self.arrivals > MOST_ARRIVALS:
                raise Undefined
            self.said[id(s)].check(at, self.counts)
            if id(s) in self.anywhere:
                self.anywhere[id(s)].check(at, self.counts)
            if not self.statement(s, at):
                return False
        return True

    def statement(self, s: Stmt, at: dict[Expr, int]) -> bool:
        match s:
            case Continue():
                return False
            case Decl(sym=sym, init=init) if init is not None:
                at[Var(sym)] = self.value(init, at)
            case If(cond=cond, then=then, orelse=orelse):
                return self.statements(then if self.value(cond, at) else orelse, at)
            case Par(var=v, lo=lo, hi=hi, body=body):
                for i in range(self.value(lo, at), self.value(hi, at))[:ROUNDS]:
                    self.statements(body, {**at, Var(v): i})
            case For():
                self.serial(s, at)
        return True

    def serial(self, s: For, at: dict[Expr, int]) -> None:
        here = {**at, Var(s.var): self.value(s.init, at)}
        for _ in range(ROUNDS):
            if not self.value(s.cond, here):
                return
            self.statements(s.body, dict(here))
            here[Var(s.var)] = self.value(s.step, here)

    def value(self, e: Expr, at: Point) -> int:
        n = number(e, at)
        if n is None:
            raise Undefined
        return n


def shown(e: Expr) -> str:
    from ktc.ir.text import print_expr

    return print_expr(e)


def places(at: Point) -> str:
    return ", ".join(f"{v.sym.name}: {v.type} = {n}" for v, n in at.items() if isinstance(v, Var))


JUDGES = {"points": judge_points, "nests": judge_nest, "tiles": judge_tiles}

__all__ = ["JUDGES", "Wrong", "judge_nest", "judge_points", "judge_tiles"]
