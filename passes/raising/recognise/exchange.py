"""Regions in which threads exchange values, understood by what they do, not by how they are written.

A region (shared stores, barriers, shuffles, shared atomics) is run by itself in the interpreter, on distinct exact
values for what the threads bring in. What comes out is compared with a table of meanings: a reduction of one input
over the whole team by any operator. The shape of the tree, its direction, masks, widths, unrolling and warp-synchronous
tails do not matter. A guess that happens to fit is still checked with the whole kernel afterwards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from ktc.ir.analysis.scalars.liveness import live_in
from ktc.ir.analysis.uniformity import uniformity_of
from ktc.ir.fold import cast, i32, is_const, product
from ktc.ir.kernel import Launch
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Barrier,
    Body,
    Const,
    Decl,
    Expr,
    Fence,
    For,
    If,
    Level,
    Load,
    Reduce,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    WarpOp,
    While,
    bodies,
    fresh,
)  # fmt: skip
from ktc.ir.storage import is_shared
from ktc.ir.types import I32, Scalar, scalar_of
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    map_body,
    mentions,
    stmt_exprs,
    substitute,
    used,
    used_in,
    walk,
    walk_expr,
)
from ktc.passes.raising.normalise.exchange_form import (
    bubbled,
    concluded,
    named_totals,
    own_cells,
    rejoined,
    split_effects,
    temporaries,
)
from ktc.passes.raising.normalise.extremes import with_extremes
from ktc.passes.raising.normalise.postponed import postponed
from ktc.passes.raising.normalise.privates import recomputable
from ktc.passes.raising.normalise.sweeps.searched_places import places_searched
from ktc.passes.raising.normalise.sweeps.split_moments import moments_apart
from ktc.passes.raising.normalise.sweeps.split_sweeps import swept_twice
from ktc.passes.raising.normalise.tidy import without_dead
from ktc.passes.raising.raise_report import Region

from .agreed_values import Agreed
from .exchange_meanings import Below, Earliest, Meaning, Picked, Prefix
from .exchange_probe import Cell, Probe
from .exchange_regions import communicates, copies, exchanges, moves_only
from .exchange_steps import Steps
from .running_values import named_running_values
from .statement_kinds import threads_in
from .tie_orders import Order

MAX_ENDS = 64


class Exchange:
    """Finds and replaces the exchange regions of one kernel for one team.

    ``others``: variables that hold the numbers of threads on the axes beside the team's. ``sized``: whether the block
    has this size in all launches: the order in which more threads would take precedence is not known.
    """

    def __init__(
        self,
        launch: Launch,
        team: dict[str, Expr],
        numbers: dict[str, int],
        others: frozenset[Sym] = frozenset(),
        *,
        sized: bool = True,
    ) -> None:
        self.launch, self.team, self.numbers, self.others, self.sized = launch, team, numbers, others, sized
        self.regions: list[Region] = []
        self.algebraic = False  # whether something holds by rational arithmetic only
        self.online = False  # whether sums below maxima are joined
        self.picked = False  # whether places go with extremes
        self.orders: dict[Sym, Order] = {}  # of ties, by what holds the least rank

    def replaced(self, body: Body) -> Body:
        """``body`` with every understood region as a ``reduce`` over the team, in thread form (for the splitter)."""
        self.shared = {s.sym: s for s in walk(body) if isinstance(s, Alloc) and is_shared(s.sym)}
        self.probe = Probe(self.launch, frozenset(self.team), self.numbers, self.shared, self.others, sized=self.sized)
        body = self._normal(body)
        varying = uniformity_of(body, self.made).varying
        self.private = varying
        self.again = recomputable(body, varying)
        self.constants = recomputable(body, set(declared(body)))
        self.probe.starts = {s.sym: s.init for s in walk(body) if isinstance(s, Decl) and isinstance(s.init, Const)}
        body = self._list(body)
        if self.algebraic:
            body = moments_apart(without_dead(body))
        if self.picked:
            body = places_searched(without_dead(body), varying, self.orders)
        return swept_twice(without_dead(body)) if self.online else body

    def _normal(self, body: Body) -> Body:
        """Every list rewritten so that an exchange stands by itself: own cells as variables, effects split off."""
        self.made: set[Sym] = set()

        def one(body: Body, filled: frozenset[Sym]) -> Body:
            before, inside = filled, []
            for s in postponed(body):
                around = filled
                filled |= _shared_in(s)
                if isinstance(s, If) and communicates(s):
                    s = dataclasses.replace(s, then=one(s.then, around), orelse=one(s.orelse, around))
                elif isinstance(s, For | While) and communicates(s):
                    s = dataclasses.replace(s, body=one(s.body, filled))  # by the round before, too
                inside.append(s)
            body = tuple(inside)
            if not any(exchanges(s) for s in body):
                return body
            body, more = split_effects(body)
            body, own = own_cells(body, self.probe.injective, before)
            body = with_extremes(body) if own else body
            body, temps = temporaries(body)
            self.made |= more | own | temps
            return bubbled(named_totals(named_running_values(body)))

        return one(body, frozenset())

    # ----------------------------------------------------------------------------------------------------- matching

    def _list(self, body: Body) -> Body:
        out: list[Stmt] = []
        shared = Agreed(self.private)
        k = 0
        while k < len(body):
            s = shared.without_shuffles(body[k])
            body = body if s is body[k] else (*body[:k], s, *body[k + 1 :])
            found = self._match(body, k, out)
            if found is not None:
                reductions, body = found
                out += reductions
                k = 0
                continue
            shared.after(s)
            k += 1
            if isinstance(s, If) and communicates(s):
                s = dataclasses.replace(s, then=self._list(s.then), orelse=self._list(s.orelse))
            elif isinstance(s, For | While) and communicates(s):
                s = dataclasses.replace(s, body=self._list(s.body))
            out.append(s)
        return rejoined(tuple(out), self.made)

    def _match(self, body: Body, start: int, earlier: Sequence[Stmt]) -> tuple[Body, Body] | None:
        """The longest understood region of ``body`` that starts at ``start``: its reductions, and what follows.

        ``earlier``: what stands before it in the list.
        """
        s = body[start]
        if not exchanges(s) or isinstance(s, Barrier | Fence):
            return None
        before = set(declared(tuple(earlier)))
        tried: set[tuple[tuple[int, ...], ...]] = set()
        for region, rest in self._readings(body, start):
            here = tuple(map(id, region)), tuple(map(id, rest))
            if here in tried:  # as an exchange and what is made of it is read, it may end in several places
                continue
            tried.add(here)
            found = self._understood(body, start, region, rest, before)
            if found is not None:
                return found
        return None

    def _readings(self, body: Body, start: int) -> Iterator[tuple[Body, Body]]:
        """The regions of ``body`` that start at ``start``, longest first, and what follows each; then these without
        the values that they name last."""
        ends = list(self._ends(body, start))
        yield from ((body[start:end], body[end:]) for end in ends)
        for end in ends:
            region, then = concluded(body[start:end])
            if then:
                yield region, (*then, *body[end:])

    def _ends(self, body: Body, start: int) -> Iterator[int]:
        ends = []
        for k in range(start, len(body)):
            if not moves_only(body[k]):
                break
            if any(communicates(s) for s in body[start : k + 1]):
                ends.append(k + 1)
        yield from list(reversed(ends))[:MAX_ENDS]

    def _understood(
        self, body: Body, start: int, region: Body, rest: Body, before: set[Sym]
    ) -> tuple[Body, Body] | None:
        private = self.private - self.again.keys()
        mine = set(declared(region))
        first = self.again.keys()  # what is made again stands in front of all
        front = tuple(d for d in copies(body[:start], region) if not set(declared((d,))) & first)
        inputs = [
            v for v in live_in((*front, *region)) if v in private and v not in mine and isinstance(v.type, Scalar)
        ]
        if not inputs:
            return None
        read_later, here = used_in(rest), set(declared(body)) | before
        outside = {v for v in assigned(region) - mine if v in read_later or v not in here}
        values = [v for v in (mine & read_later) | outside if isinstance(v.type, Scalar)]
        values = sorted((v for v in values if v not in self.again or v in outside), key=lambda v: v.id)
        tried: list[list[Cell]] = []
        for fills in (self._overwrites, _filled):
            cells = self._cells(region, rest, fills)
            if cells is None or cells in tried or not (values or cells):
                continue
            tried.append(cells)
            outcome = self._outcome(body[:start], (*front, *region), inputs, values, cells, self._by_all(rest, cells))
            if outcome is not None:
                return self._replace(region, rest, values, cells, outcome, here, fills)
        return None

    def _outcome(
        self,
        before: Body,
        region: Body,
        inputs: list[Sym],
        values: list[Sym],
        cells: list[Cell],
        by_all: Collection[Cell],
    ) -> dict[object, Meaning] | None:
        """What ``values`` and ``cells`` are at the end of ``region``, as far as each is something that is known."""
        again = {**self.constants, **self.again}
        outcome = self.probe.summarise(region, inputs, values, cells, again, by_all=by_all)
        ordered = outcome is None or any(isinstance(m, Earliest) for m in outcome.values())
        if ordered and (numbers := self._numbers_of_threads(before, live_in(region), again)):
            brought = [
                *inputs,
                *(v for v in numbers if v not in inputs),
            ]  # that are in order, too, say it in fewer words
            outcome = self.probe.summarise(region, brought, values, cells, again, numbers, by_all) or outcome
        if outcome is None or (any(isinstance(m, Prefix) for m in outcome.values()) and set(self.team) != {"x"}):
            return None
        return outcome

    def _numbers_of_threads(
        self, before: Body, read: Iterable[Sym], again: Mapping[Sym, Decl]
    ) -> dict[Sym, np.ndarray]:
        """Integers among ``read`` that number the threads, upwards, as the search for an extreme's place begins."""
        own = {s.sym: s for s in before if isinstance(s, Decl) and s.init is not None and s.sym in self.private}
        known = {**again, **{v: s for v, s in own.items() if v not in assigned(before)}}
        numbers = {v: self.probe.by_thread(v, known) for v in read if v in self.private and v in known}
        return {v: n for v, n in numbers.items() if n is not None and (np.diff(n) > 0).all()}

    def _by_all(self, rest: Body, cells: Sequence[Cell]) -> list[Cell]:
        """Those of ``cells`` of which each thread reads its own, in ``rest``, under no condition."""
        read = {(e.buffer, e.index) for e in _always(rest) if isinstance(e, Load)}
        return [c for c in cells if c in read and any(used(i) or threads_in(i) for i in c[1])]

    def _cells(self, region: Body, rest: Body, fills: Fills) -> list[Cell] | None:
        """Shared elements of the region that are read after it, before what ``fills`` their array anew; None when not
        one by one, or not at places known at its end."""
        arrays = {b for b in assigned(region) if is_shared(b)}
        out: list[Cell] = []
        for s in rest:
            for b in [b for b in arrays if fills(s, b)]:
                arrays.discard(b)
            for e in all_exprs((s,)):
                if isinstance(e, Load) and e.buffer in arrays:
                    if e.width != 1 or not self._known_place(e.index, region, rest):
                        return None
                    if (e.buffer, e.index) not in out:
                        out.append((e.buffer, e.index))
        return out

    def _known_place(self, index: tuple[Expr, ...], region: Body, rest: Body) -> bool:
        """Whether each thread knows ``index`` when ``region`` ends and it stays so."""
        if all(is_const(i) for i in index):
            return True
        if any(isinstance(x, Load | WarpOp) for i in index for x in walk_expr(i)):
            return False
        top = {s.sym for s in region if isinstance(s, Decl)} | (assigned(region) & self.probe.starts.keys())
        known = (self.again.keys() | self.constants.keys() | self.others | top) - assigned(rest)
        return all(v in known for i in index for v in used(i))

    def _overwrites(self, s: Stmt, b: Sym) -> bool:
        return isinstance(s, Store) and s.buffer == b and self.probe.injective(s.index)

    def _replace(self, region: Body, rest: Body, values, cells, outcome, here, fills: Fills) -> tuple[Body, Body]:
        steps = Steps()
        for key in (*cells, *values):
            if isinstance(outcome[key], Prefix):
                outcome[key].steps(steps, _called(key))
        for cell in cells:
            made = outcome[cell].steps(steps, cell[0].name)
            rest = _read_instead(rest, cell, cast(Var(made), scalar_of(cell[0].type)), fills)
        for v in values:
            result = cast(Var(outcome[v].steps(steps, v.name)), v.type)
            again = v in assigned(rest) or v not in here
            named = Decl(v, result) if v in declared(region) else Assign(v, result)
            rest = (named, *rest) if again else substitute(rest, {v: result})
        self.algebraic |= any(m.algebraic for m in outcome.values())
        self.online |= any(isinstance(m, Below) for m in outcome.values())
        self.picked |= any(isinstance(m, Picked | Earliest) for m in outcome.values())
        self.orders |= steps.orders
        loc = next((s.loc for s in region if s.loc), None)
        dist = tuple(Level("thread", n, a) for a, n in self.team.items())
        scans = list(steps.running(product(list(self.team.values())), (*dist, Level("seq")), loc))
        how = "found by running the exchange on exact values"
        reduced = [f"{a.op} of {_name(a.value)}" for accs, _ in steps.groups for a in accs]
        for kind, names in (("reduction", reduced), ("scan", [f"{s.acc.op} of {_name(s.acc.value)}" for s in scans])):
            if names:
                self.regions.append(Region(kind, ", ".join(names), how, loc))
        out: list[Stmt] = []
        for accs, decls in steps.groups:
            total = product(list(self.team.values()))
            if accs:
                out.append(Reduce(tuple(accs), fresh("t", I32), i32(0), total, dist, (), loc=loc))
            out += decls
        return (*out, *scans), rest


Fills: TypeAlias = Callable[[Stmt, Sym], bool]
"""Whether nothing reads the former elements of a shared array from a statement on."""


def _filled(s: Stmt, b: Sym) -> bool:
    """Whether ``s`` puts something into ``b`` and takes nothing from it: most likely the array's next use (a guess)."""
    puts = any(isinstance(x, Store) and x.buffer == b for x in walk((s,)))
    return puts and not any(isinstance(e, Load) and e.buffer == b for e in all_exprs((s,)))


def _read_instead(rest: Body, cell: Cell, by: Expr, fills: Fills) -> Body:
    buffer, index = cell
    cut = next((k for k, s in enumerate(rest) if fills(s, buffer)), len(rest))

    def on(e: Expr) -> Expr:
        return by if isinstance(e, Load) and e.buffer == buffer and e.index == index else e

    return map_body(rest[:cut], lambda s: s, on) + rest[cut:]


def _always(body: Body) -> Iterator[Expr]:
    """The expressions of ``body`` that stand under no condition."""
    for s in body:
        for e in stmt_exprs(s):
            yield from walk_expr(e)
        for inner in () if isinstance(s, If) else bodies(s):
            yield from _always(inner)


def _shared_in(s: Stmt) -> frozenset[Sym]:
    return frozenset(b for b in mentions(s) if is_shared(b))


def _called(key: Sym | Cell) -> str:
    return key.name if isinstance(key, Sym) else key[0].name


def _name(e: Expr) -> str:
    if isinstance(e, Select) and threads_in(e.cond):
        return f"{_name(e.a)} of the first {_name(e.cond)} threads"
    return e.sym.name if isinstance(e, Var) else " and ".join(sorted(s.name for s in used(e)))


__all__ = ["Exchange"]
