"""One iteration as scalars that are assigned once: vectors and small private arrays by lane, short loops written out.

before                                          after
    var v: f32x4 = x[i * 4 +: 4]                    let v: f32 = x[i * 4]
    v[0] *= a                                       let v: f32 = x[i * 4 + 1]
    v[1] *= a                                       ...
    ...                                             let v: f32 = v * a
    if i * 4 < n                                    ...
      y[i * 4 +: 4] = v                             y[i * 4] = v        where i * 4 < n
                                                    y[i * 4 + 1] = v    where i * 4 < n
                                                    ...

Every operation stays the operation that it was, in the order in which it stood. What a branch computes is computed
whatever its condition says, and chosen then; what it stores is kept with the condition. What it reads under a condition
that all iterations share (a bias that may be missing) is read only where it holds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ktc.ir.fold import evaluate, simplify
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Body,
    Const,
    Decl,
    Expr,
    For,
    If,
    Select,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
    fresh,
)  # fmt: skip
from ktc.ir.purity import is_movable
from ktc.ir.storage import is_local_array
from ktc.ir.types import Array, Vec, scalar_of
from ktc.ir.walk import assigned, used, walk_expr

from .lane_values import Known, LaneValues, NotLanes, count_of, renamed, width_of

MOST_ROUNDS = 64
"""Iterations of a loop of constant length that is written out."""

MOST_ITEMS = 2000
"""Statements of an iteration."""

MOST_IN_PLACE = 32
"""Operators of a value that has no name."""

Conditions = tuple[Expr, ...]


@dataclass(frozen=True)
class Effect:
    """A store or an atomic update of one element, and the conditions under which it happens."""

    what: Store | Atomic
    given: Conditions


@dataclass(frozen=True)
class Nested:
    """A loop that is not written out: ``head`` without its statements, which are ``items``."""

    head: For
    items: list[Item]


Item: TypeAlias = "Decl | Assign | Effect | Nested"


@dataclass
class Lanes(LaneValues):
    """``items``: scalars that are declared, all but those that a loop changes for good, and what is done with them, in
    order.

    ``hoisted``: conditions under which the source reads memory, which ``items`` do whatever these say. ``of_vectors``:
    the scalars that are lanes of vectors, or cells of arrays. ``over``: the loop that these are iterations of, if any.
    ``uniform``: conditions that are the same in all of them; what is read under one stands where it is used, within a
    choice or an effect under that condition, and is not read elsewhere.
    """

    items: list[Item] = field(default_factory=list)
    hoisted: dict[Expr, None] = field(default_factory=dict)
    given: Conditions = ()
    of_vectors: set[Sym] = field(default_factory=set)
    over: Sym | None = None
    uniform: set[Expr] = field(default_factory=set)

    def run(self, body: Body) -> Lanes:
        """Add the statements of ``body``.

        Raises:
            NotLanes: some do other things than computing and storing.
        """
        for s in body:
            on = _ON.get(type(s))
            if on is None or len(self.items) > MOST_ITEMS:
                raise NotLanes(f"{type(s).__name__.lower()} is no statement of lanes")
            on(self, s)
        return self

    # -------------------------------------------------------------------------------------------------- variables
    def _decl(self, s: Decl) -> None:
        t = s.sym.type
        if isinstance(t, Vec):
            n = count_of(t)
            self.known[s.sym] = [None] * n if s.init is None else self._lets(s.sym, self.vector(s.init, n), s)
        else:
            self.known[s.sym] = None if s.init is None else self._let(s.sym, self.scalar(s.init), s)

    def _assign(self, s: Assign) -> None:
        t = s.sym.type
        if s.sym not in self.known:
            raise NotLanes(f"'{s.sym.name}' is a variable from outside")
        if isinstance(t, Vec):
            self.known[s.sym] = self._lets(s.sym, self.vector(s.value, count_of(t)), s)
        else:
            self.known[s.sym] = self._let(s.sym, self.scalar(s.value), s)

    def _lets(self, name: Sym, lanes: list[Expr], s: Stmt) -> list[Expr | None]:
        known = [self._let(renamed(name, scalar_of(name.type)), e, s) for e in lanes]
        self.of_vectors |= {x.sym for x in known if isinstance(x, Var)}
        return list(known)

    def _let(self, name: Sym, value: Expr, s: Stmt) -> Expr:
        """``value``, declared under ``name``'s name if it is more than a variable or a number."""
        if isinstance(value, Var | Const) or self._stays(value):
            return value
        sym = fresh(name.name, value.type)
        self.items.append(Decl(sym, value, const=True, loc=s.loc, comments=s.comments))
        if self.given and not is_movable(value):
            self.hoisted.update(dict.fromkeys(self.given))
        return Var(sym)

    def _stays(self, value: Expr) -> bool:
        """Whether ``value`` is small, and read under a condition that is the same in all iterations."""
        if is_movable(value) or not any(c in self.uniform for c in self.given):
            return False
        return sum(1 for _ in walk_expr(value)) <= MOST_IN_PLACE

    def _is_uniform(self, cond: Expr) -> bool:
        changing = {self.over, *(d.sym for d in self.items if isinstance(d, Decl))}
        return self.over is not None and is_movable(cond) and not used(cond) & changing

    def _alloc(self, s: Alloc) -> None:
        t = s.sym.type
        if s.dynamic or not is_local_array(s.sym) or not isinstance(t, Array):
            raise NotLanes(f"'{s.sym.name}' is shared")
        n = count_of(t.elem) if isinstance(t.elem, Vec) else 1
        for extent in t.shape:
            known = evaluate(extent, {})
            if known is None:
                raise NotLanes(f"'{s.sym.name}' has no constant length")
            n *= int(known)
        if n > MOST_ITEMS:
            raise NotLanes(f"'{s.sym.name}' is long")
        self.known[s.sym] = [None] * n

    # ---------------------------------------------------------------------------------------------------- effects
    def _store(self, s: Store) -> None:
        width = width_of(s.width)
        vector = isinstance(s.value.type, Vec)
        if s.buffer in self.known:
            at, n = self._cells(s.buffer, s.index, width)
            cells = self.known[s.buffer]
            assert isinstance(cells, list)
            values = self.vector(s.value, n) if vector else [self.scalar(s.value)]
            self.known[s.buffer] = [*cells[:at], *self._lets(s.buffer, values, s), *cells[at + n :]]
            return
        values = self.vector(s.value, width) if vector else [self.scalar(s.value)]
        for k, value in enumerate(values):
            one = dataclasses.replace(s, index=self._moved(s.index, k), value=value, width=1)
            self.items.append(Effect(one, self.given))

    def _atomic(self, s: Atomic) -> None:
        if s.dst is not None or s.compare is not None:
            raise NotLanes("what an atomic update finds is used")
        index = tuple(map(self.scalar, s.index))
        self.items.append(Effect(dataclasses.replace(s, index=index, value=self.scalar(s.value)), self.given))

    # ---------------------------------------------------------------------------------------------------- control
    def _if(self, s: If) -> None:
        cond = simplify(self.scalar(s.cond))
        if isinstance(cond, Const):
            self.run(s.then if cond.value else s.orelse)
            return
        if self._is_uniform(cond):
            self.uniform |= {cond, Unary("!", cond)}
        before, given = dict(self.known), self.given
        sides: list[dict[Sym, Known]] = []
        for body, here in ((s.then, cond), (s.orelse, Unary("!", cond))):
            self.known, self.given = dict(before), (*given, here)
            self.run(body)
            sides.append(self.known)
        self.known, self.given = {}, given
        for sym, old in before.items():
            a, b = sides[0][sym], sides[1][sym]
            self.known[sym] = old if a == b == old else self._chosen(sym, cond, a, b, s)

    def _chosen(self, sym: Sym, cond: Expr, a: Known, b: Known, s: Stmt) -> Any:
        if isinstance(a, list) and isinstance(b, list):
            return [self._chosen(sym, cond, x, y, s) for x, y in zip(a, b)]
        if a == b:
            return a
        if not isinstance(a, Expr) or not isinstance(b, Expr):
            return a if b is None else b  # nobody may look at it where it was not given a value
        return self._let(renamed(sym, a.type), Select(cond, a, b), s)

    def _for(self, s: For) -> None:
        items, known = list(self.items), dict(self.known)
        if self._written_out(s):
            return
        self.items[:], self.known = items, known
        if s.var in assigned(s.body):
            raise NotLanes(f"the loop over '{s.var.name}' changes its counter")
        self.known.pop(s.var, None)
        self._nested(s, self.scalar(s.init))

    def _written_out(self, s: For) -> bool:
        """Add the iterations of ``s``, if they are few."""
        v, rounds = evaluate(simplify(self.scalar(s.init)), {}), 0
        while v is not None and rounds <= MOST_ROUNDS:
            self.known[s.var] = Const(int(v), s.var.type)  # type: ignore[arg-type]
            go = evaluate(simplify(self.scalar(s.cond)), {})
            if go is None or not go:
                return go is not None
            self.run(s.body)
            self.known[s.var] = Const(int(v), s.var.type)  # type: ignore[arg-type]
            v, rounds = evaluate(simplify(self.scalar(s.step)), {}), rounds + 1
        return False

    def _nested(self, s: For, init: Expr) -> None:
        """Add a loop: what it changes are variables that change."""
        changed = assigned(s.body)
        cells: dict[Sym, list[Sym]] = {}
        for v in [v for v in self.known if v in changed]:
            old = self.known[v]
            cells[v] = [self._variable(v, e) for e in (old if isinstance(old, list) else [old])]
            now: list[Expr | None] = [Var(m) for m in cells[v]]
            self.known[v] = now if isinstance(old, list) else now[0]
        head = dataclasses.replace(s, init=init, cond=self.scalar(s.cond), step=self.scalar(s.step), body=())
        outer, before = self.items, dict(self.known)
        moving = {m for own in cells.values() for m in own}
        self.items, self.known = [], dict(before)
        self.run(s.body)
        for v, own in cells.items():
            new = self.known[v]
            for m, value in zip(own, new if isinstance(new, list) else [new]):
                if value is None or (isinstance(value, Var) and value.sym != m and value.sym in moving):
                    raise NotLanes(f"what '{v.name}' holds moves on")
                if value != Var(m):
                    self.items.append(Assign(m, value, loc=s.loc))
        inner, self.items, self.known = self.items, outer, before
        self.items.append(Nested(head, inner))

    def _variable(self, v: Sym, value: Expr | None) -> Sym:
        sym = fresh(v.name, value.type if value is not None else scalar_of(v.type))
        self.items.append(Decl(sym, value))
        return sym


_ON: Mapping[type, Callable[[Lanes, Any], None]] = {
    Decl: Lanes._decl, Assign: Lanes._assign, Alloc: Lanes._alloc, Store: Lanes._store, Atomic: Lanes._atomic,
    For: Lanes._for, If: Lanes._if,
}  # fmt: skip

__all__ = ["Conditions", "Effect", "Item", "Lanes", "Nested", "NotLanes"]
