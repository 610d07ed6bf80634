"""Arrays that a block fills anew before it reads them: what a cell holds is known from the statement that filled it.

Every load stands behind a statement of its own body, or of one around it, that stores to all cells of the array, or to
all that are ever read (rows may be padded), and behind a barrier that follows that statement; nothing writes the array
in between. So a cell holds what some thread stored in the same round, and whatever an earlier round left is never seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ktc.ir.analysis.uniformity import uniformity
from ktc.ir.fold import evaluate, i32
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Body,
    Break,
    Continue,
    Expr,
    For,
    HwIndex,
    Load,
    Return,
    Stmt,
    Sym,
    Var,
    While,
    bodies,
    fresh,
)  # fmt: skip
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import all_exprs, assigned, map_expr, stmt_exprs, used, walk, walk_expr
from ktc.search.verification.integers import smt
from ktc.search.verification.integers.formulas import increment
from tests.mutation.proofs.definitions import definitions
from tests.mutation.proofs.subscripts import within
from tests.mutation.sites import sites
from tests.mutation.symbolic.barriers import of_block

from .cells import Filling, reached, shape, store_in

Place = tuple[tuple[Body, int], ...]
"""The bodies around a statement, outermost first, and where it stands in each."""


class Refilled:
    """The arrays of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.facts = uniformity(kernel)
        self.changed = assigned(kernel.body)
        self.given = {s: e for s, e in definitions(kernel.body).items() if isinstance(s.type, Scalar)}
        self.pointed = {e.buffer for e in all_exprs(kernel.body) if isinstance(e, AddrOf)}
        self.places: dict[int, Place | None] = {}
        self._known: dict[int, Filling | None] = {}
        self._contexts: dict[int, smt.Context] = {}
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

    def filling(self, s: Stmt, array: Sym, context: smt.Context | None = None) -> Filling | None:
        """What fills ``array`` before the statement ``s`` reads it; None if that is not known. ``context``: where else
        it may read it than where the kernel does."""
        for body, k in reversed(self.places.get(id(s)) or ()):
            if array in assigned((body[k],)):
                return None
            at = next((j for j in range(k - 1, -1, -1) if array in assigned((body[j],))), None)
            if at is not None:
                waits = any(of_block(x) for x in body[at + 1 : k])
                found = self._filled_by(body[at], array) if waits else None
                return found if found is not None and self._reads_filled(s, found, context) else None
        return None

    def _filled_by(self, s: Stmt, array: Sym) -> Filling | None:
        if id(s) not in self._known:
            found = store_in(s, array) if array not in self.pointed else None
            extents = self.reached(found) if found is not None else ()
            self._known[id(s)] = replace(found, extents=extents) if found is not None and extents else None
        return self._known[id(s)]

    def _together(self, s: Stmt) -> bool:
        """Whether all threads of a block reach ``s`` together."""
        place = self.places.get(id(s))
        return place is not None and not self.facts.is_divergent(s)

    def _reads_filled(self, s: Stmt, filling: Filling, context: smt.Context | None) -> bool:
        """Whether ``s`` itself reads no cell that is not filled."""
        array = filling.store.buffer
        if isinstance(array.type, Array) and shape(array.type, self.kernel) == filling.extents:
            return True
        if not self._contexts:
            places = sites(self.kernel.body, smt.Context(self.kernel))
            self._contexts.update((id(x), there.branch()) for x, there in places)
        here = context if context is not None else self._contexts[id(s)]
        reads = (e for top in stmt_exprs(s) for e in walk_expr(top) if isinstance(e, Load) and e.buffer == array)
        return all(within(e, tuple(map(i32, filling.extents)), here) for e in reads)

    def reached(self, filling: Filling) -> tuple[int, ...]:
        """Below which subscripts the threads of a block, all of which come there, together fill every cell of a shared
        array; empty if that is not so."""
        if not self._together(filling.statement):
            return ()
        t = filling.store.buffer.type
        shared = isinstance(t, Array) and t.space == "shared"
        return reached(filling, self.kernel, self.given, self.threads) if shared and self.threads else ()

    def stored(self, s: Stmt, e: Load, context: smt.Context) -> tuple[Expr, smt.Context] | None:
        """What some thread stored in the cell that ``e`` reads in the statement ``s``, and what holds of that thread
        and of the loops around its store. None if that is not known."""
        filling = self.filling(s, e.buffer, context)
        return self.filler(filling, e.index, context) if filling is not None and e.width == 1 else None

    def filler(self, filling: Filling, cell: tuple[Expr, ...], context: smt.Context) -> tuple[Expr, smt.Context] | None:
        """What any thread stores in ``cell``, named where ``context`` holds, and what holds of that thread and of the
        loops around its store. None if that is not known."""
        here, other = context.branch(), self._another_thread(filling)
        value, *index = (self._told(x, other) for x in (filling.store.value, *filling.store.index))
        if value is None or not all(context.lasting(i) for i in cell):
            return None
        for axis, extent in zip("xyz", self.threads):
            v = here.of(other[HwIndex("thread", axis)])
            here.facts += [v >= 0, v < extent]
        for loop in filling.loops:
            self._count(loop, other, here)
        for guard in filling.guards:
            self._learn(guard, other, here)
        for mine, theirs in zip(cell, index):
            if theirs is None or not here.lasting(theirs):
                return None
            here.facts.append(here.of(mine) == here.of(theirs))
        return value, here

    def _count(self, s: For, other: dict[Expr, Expr], here: smt.Context) -> None:
        import z3

        first, by = (self._told(e, other) if e is not None else None for e in (s.init, increment(s)))
        step = evaluate(by, self.kernel.knob_values) if by is not None else None
        if first is not None and step is not None and step > 0 and here.lasting(first):
            rounds = z3.FreshInt("rounds")
            here.facts += [rounds >= 0, here.of(other[Var(s.var)]) == here.of(first) + rounds * int(step)]
        self._learn(s.cond, other, here)

    def _learn(self, cond: Expr, other: dict[Expr, Expr], here: smt.Context) -> None:
        told = self._told(cond, other)
        if told is not None and here.lasting(told):
            here.facts.append(here.truth(told))

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


def _scalars(e: Expr) -> set[Sym]:
    return {s for s in used(e) if isinstance(s.type, Scalar)}


def placed(body: Body, around: Place = ()) -> Iterator[tuple[Stmt, Place]]:
    """Every statement in ``body``, with its place."""
    for k, s in enumerate(body):
        place = (*around, (body, k))
        yield s, place
        for inner in bodies(s):
            yield from placed(inner, place)


__all__ = ["Place", "Refilled", "placed"]
