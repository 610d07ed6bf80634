"""Arrays that a block fills anew before it reads them: what a cell holds is known from the statement that filled it.

Every load stands behind a statement of its own body, or of one around it, that stores to all cells of the array, and
behind a barrier that follows that statement; nothing writes the array in between. So a cell holds what some thread
stored in the same round, and whatever an earlier round left is never seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    KNOB_MARK,
    Barrier,
    Body,
    Break,
    Cast,
    Continue,
    Expr,
    For,
    HwIndex,
    Load,
    Return,
    Stmt,
    Store,
    Sym,
    Var,
    While,
    bodies,
    fresh,
)  # fmt: skip
from ktc.ir.types import Array, Scalar, Type
from ktc.ir.uniformity import uniformity
from ktc.ir.walk import assigned, map_expr, stmt_exprs, used, walk, walk_expr
from ktc.search.verification import smt
from ktc.search.verification.formulas import increment

from .definitions import definitions

MOST = 1 << 16
"""Stores of a block that are followed to see which cells they reach."""

Place = tuple[tuple[Body, int], ...]
"""The bodies around a statement, outermost first, and where it stands in each."""


@dataclass(frozen=True)
class Filling:
    """The store that fills an array, and the loops around it in its ``statement``, outermost first."""

    store: Store
    loops: tuple[For, ...]
    statement: Stmt


class Refilled:
    """The arrays of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.facts = uniformity(kernel)
        self.changed = assigned(kernel.body)
        self.given = {s: e for s, e in definitions(kernel.body).items() if isinstance(s.type, Scalar)}
        self.places: dict[int, Place | None] = {}
        self._known: dict[int, Filling | None] = {}
        leaves = any(isinstance(s, Return | Break | Continue | While) for s in walk(kernel.body))
        for s, place in () if leaves else placed(kernel.body):
            self.places[id(s)] = None if id(s) in self.places else place
        self.threads = self._threads()

    def _threads(self) -> tuple[int, ...]:
        launch = self.kernel.launch
        found = [evaluate(e, self.kernel.knob_values) for e in launch.block] if launch is not None else [None]
        return tuple(int(n) for n in found if n is not None) if None not in found else ()

    def always(self, array: Sym) -> bool:
        """Whether every load of ``array`` finds what the same round stored."""
        readers = [
            s for s in walk(self.kernel.body) for e in stmt_exprs(s) for x in walk_expr(e)
            if isinstance(x, Load) and x.buffer == array
        ]  # fmt: skip
        return isinstance(array.type, Array) and all(self.filling(s, array) is not None for s in readers)

    def filling(self, s: Stmt, array: Sym) -> Filling | None:
        """What fills ``array`` before the statement ``s`` reads it; None if that is not known."""
        for body, k in reversed(self.places.get(id(s)) or ()):
            if array in assigned((body[k],)):
                return None
            at = next((j for j in range(k - 1, -1, -1) if array in assigned((body[j],))), None)
            if at is not None:
                waits = any(isinstance(x, Barrier) and _of_block(x) for x in body[at + 1 : k])
                return self._filled_by(body[at], array) if waits else None
        return None

    def _filled_by(self, s: Stmt, array: Sym) -> Filling | None:
        if id(s) not in self._known:
            found = _store_in(s, array)
            all_reach = found is not None and self._together(s) and self._reaches_all(found)
            self._known[id(s)] = found if all_reach else None
        return self._known[id(s)]

    def _together(self, s: Stmt) -> bool:
        """Whether all threads of a block reach ``s`` together."""
        place = self.places.get(id(s))
        return place is not None and not self.facts.is_divergent(s)

    def _reaches_all(self, filling: Filling) -> bool:
        """Whether the threads of a block together store to every cell."""
        t = filling.store.buffer.type
        assert isinstance(t, Array)
        shape = [evaluate(n, self.kernel.knob_values) for n in t.shape]
        if not self.threads or None in shape or filling.store.width != 1 or t.space != "shared":
            return False
        names = {s.var: fresh(f"loop {k}", s.var.type) for k, s in enumerate(filling.loops)}
        index = [self._numbered(i, names) for i in filling.store.index]
        counts = [[self._numbered(e, names) for e in (s.init, s.cond, s.step)] for s in filling.loops]
        every = itertools.chain(index, *counts)
        if any(isinstance(e, Cast) and not _wide(e.to) for top in every for e in walk_expr(top)):
            return False  # that it cuts numbers short is not followed
        loops = [(names[s.var].name, *count) for s, count in zip(filling.loops, counts)]
        knobs = {KNOB_MARK + name: value for name, value in self.kernel.knob_values.items()}
        reached: set[tuple[Any, ...]] = set()
        x, y, z = self.threads
        stores = 0
        for c, b, a in itertools.product(range(z), range(y), range(x)):
            for here in _rounds(loops, {**knobs, **dict(zip(_NAMES, (a, b, c)))}):
                reached.add(tuple(evaluate(i, here) for i in index))
                stores += 1
                if stores > MOST:
                    return False
        cells = set(itertools.product(*(range(int(n)) for n in shape if n is not None)))
        return reached == cells

    def _numbered(self, e: Expr, names: dict[Sym, Sym]) -> Expr:
        """``e`` with the thread's indices and the loops' variables by ``names`` that nothing else has, and without
        definitions."""

        def on(x: Expr) -> Expr:
            if isinstance(x, Var) and x.sym in names:
                return Var(names[x.sym])
            if isinstance(x, Var) and x.sym in self.given:
                return self._numbered(self.given[x.sym], names)
            if isinstance(x, HwIndex) and x.level == "thread":
                return Var(fresh(_NAMES["xyz".index(x.axis)], x.type))
            if isinstance(x, HwIndex) and x.level == "block_dim" and self.kernel.launch is not None:
                return self.kernel.launch.block["xyz".index(x.axis)]
            return x

        return map_expr(e, on)

    def stored(self, s: Stmt, e: Load, context: smt.Context) -> tuple[Expr, smt.Context] | None:
        """What some thread stored in the cell that ``e`` reads in the statement ``s``, and what holds of that thread
        and of the loops around its store. None if that is not known."""
        filling = self.filling(s, e.buffer)
        if filling is None or e.width != 1:
            return None
        here, other = context.branch(), self._another_thread(filling)
        value, *index = (self._told(x, other) for x in (filling.store.value, *filling.store.index))
        if value is None or not all(context.lasting(i) for i in e.index):
            return None
        for axis, extent in zip("xyz", self.threads):
            v = here.of(other[HwIndex("thread", axis)])
            here.facts += [v >= 0, v < extent]
        for loop in filling.loops:
            self._count(loop, other, here)
        for mine, theirs in zip(e.index, index):
            if theirs is None or not here.lasting(theirs):
                return None
            here.facts.append(here.of(mine) == here.of(theirs))
        return value, here

    def _count(self, s: For, other: dict[Expr, Expr], here: smt.Context) -> None:
        import z3

        first, by, cond = (self._told(e, other) if e is not None else None for e in (s.init, increment(s), s.cond))
        step = evaluate(by, self.kernel.knob_values) if by is not None else None
        if first is not None and step is not None and step > 0 and here.lasting(first):
            rounds = z3.FreshInt("rounds")
            here.facts += [rounds >= 0, here.of(other[Var(s.var)]) == here.of(first) + rounds * int(step)]
        if cond is not None and here.lasting(cond):
            here.facts.append(here.truth(cond))

    def _another_thread(self, filling: Filling) -> dict[Expr, Expr]:
        """Names for the indices of the thread that stored, and for its loops' variables."""
        indices: list[Expr] = [HwIndex("thread", axis) for axis in "xyz"]
        variables: list[Expr] = [Var(s.var) for s in filling.loops]
        return {e: Var(fresh("other", e.type)) for e in (*indices, *variables)}  # type: ignore[arg-type]

    def _told(self, e: Expr, other: dict[Expr, Expr]) -> Expr | None:
        """``e`` as the other thread finds it; None where it reads what not all threads agree on."""

        def on(x: Expr) -> Expr:
            if isinstance(x, Var) and x.sym in self.given and x not in other:
                return map_expr(self.given[x.sym], on)
            return other.get(x, x)

        found = map_expr(e, on)
        own = {v.sym for v in other.values() if isinstance(v, Var)}
        agreed = all(s in own or (s not in self.changed and self.facts.is_uniform(Var(s))) for s in _scalars(found))
        return found if agreed else None


_NAMES = ("thread x", "thread y", "thread z")


def _wide(t: Type) -> bool:
    """Whether integers of the type ``t`` hold all subscripts."""
    return isinstance(t, Scalar) and t.is_int and t.bits >= 32


def _scalars(e: Expr) -> set[Sym]:
    return {s for s in used(e) if isinstance(s.type, Scalar)}


def placed(body: Body, around: Place = ()) -> Iterator[tuple[Stmt, Place]]:
    """Every statement in ``body``, with its place."""
    for k, s in enumerate(body):
        place = (*around, (body, k))
        yield s, place
        for inner in bodies(s):
            yield from placed(inner, place)


def _of_block(s: Barrier) -> bool:
    return s.scope == "block" and s.memory == "all" and s.flags is None and s.mask is None


def _store_in(s: Stmt, array: Sym) -> Filling | None:
    """The one statement in ``s`` that writes ``array``, behind nothing but loops."""
    loops: list[For] = []
    at = s
    while isinstance(at, For) and at.var not in assigned(at.body):
        loops.append(at)
        rest = [x for x in at.body if array in assigned((x,))]
        if len(rest) != 1:
            return None
        at = rest[0]
    return Filling(at, tuple(loops), s) if isinstance(at, Store) and at.buffer == array else None


def _rounds(loops: list[Any], env: dict[str, int]) -> Iterator[dict[str, int]]:
    """The numbers of every round of the loops, as far as they are known."""
    if not loops:
        yield env
        return
    (name, init, cond, step), *inner = loops
    value = evaluate(init, env)
    for _ in range(MOST):
        if value is None or not evaluate(cond, {**env, name: int(value)}):
            return
        here = {**env, name: int(value)}
        yield from _rounds(inner, here)
        value = evaluate(step, here)


__all__ = ["Place", "Refilled", "placed"]
