"""Accumulations: updates of what the rounds of a loop read for nothing else (``sum += a[k] * b[k]``).

Each round needs the value that the one before left, and nothing else of it. So what is added is evaluated for all
rounds at once, and the updates follow, round by round in the loop's order, each for all threads and elements at once:
the same operations on the same operands as one round after another.

In a register tile, ``for k: for i: for j: c[i][j] += a[i][k] * b[k][j]``, an element is the business of one round of
the inner loops, so that its updates come in the order of ``k`` whichever way the inner loops run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ktc.ir.fields import children, with_children
from ktc.ir.interp.memory.access import Access, access
from ktc.ir.nodes import (
    Assign,
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Expr,
    For,
    If,
    Knob,
    Load,
    Stmt,
    Store,
    Sym,
    Unary,
    Var,
    fresh,
)  # fmt: skip
from ktc.ir.types import Array, Ptr, Scalar, Vec, scalar_of
from ktc.ir.walk import all_exprs, used, walk_expr

from .frames import Active, Frame, is_uniform, spread

if TYPE_CHECKING:
    from .statements import Machine

Terms = Mapping[Sym, Any]
"""What is accumulated, by lane."""


@dataclass(frozen=True)
class Accumulation:
    """``stmt`` stores ``value`` of what was there (``old``) and of ``terms``, each evaluated from its expression.
    ``places``: the subscripts by which it reads what was there, the same as those of ``stmt``."""

    stmt: Assign | Store
    value: Expr
    old: Sym
    terms: tuple[tuple[Sym, Expr], ...]
    places: tuple[Expr, ...]


def accumulation(x: Sym, s: For, own: set[Sym], apart: Callable[[Store, For], bool]) -> Accumulation | None:
    """The one statement in ``s`` that has to do with ``x``, where it accumulates; None where there are others.

    ``own``: variables of a round; ``apart``: whether the rounds of a loop inside ``s`` store to other elements each.
    """
    found = [(y, around) for y, around in _inside(s.body) if isinstance(y, Assign | Store) and _target(y) == x]
    if len(found) != 1 or x in used(s.cond) | used(s.step) | used(s.init):
        return None
    stmt, around = found[0]
    if isinstance(stmt, Store) and not _stays(stmt, s, around, own, apart):
        return None
    if isinstance(stmt, Assign) and (around or not isinstance(x.type, Scalar)):
        return None
    here = stmt.value, *(stmt.index if isinstance(stmt, Store) else ())
    mine = sum(_mentions(e, x) for h in here for e in walk_expr(h))
    if sum(_mentions(e, x) for e in all_exprs(s.body)) != mine:
        return None  # something else reads it
    terms: dict[Sym, Expr] = {}
    old = fresh("old", scalar_of(stmt.value.type))
    value = _split(stmt.value, stmt, old, terms)
    if value is None or old not in used(value):
        return None
    places = (i for e in walk_expr(stmt.value) if isinstance(e, Load) and e.buffer == x for i in e.index)
    return Accumulation(stmt, value, old, tuple(terms.items()), tuple(i for i in places if not isinstance(i, _LEAVES)))


def _inside(body: Body, around: tuple[For, ...] = ()) -> Iterator[tuple[Stmt, tuple[For, ...]]]:
    """Each statement of ``body`` with the loops around it."""
    for s in body:
        yield s, around
        for inner in (s.then, s.orelse) if isinstance(s, If) else (s.body,) if isinstance(s, For) else ():
            yield from _inside(inner, (*around, s) if isinstance(s, For) else around)


def _target(s: Assign | Store) -> Sym:
    return s.sym if isinstance(s, Assign) else s.buffer


def _mentions(e: Expr, x: Sym) -> bool:
    return (isinstance(e, Var) and e.sym == x) or (isinstance(e, Load) and e.buffer == x)


def _stays(s: Store, loop: For, around: Sequence[For], own: set[Sym], apart: Callable[[Store, For], bool]) -> bool:
    """Whether all updates of an element by one thread come in the order of the rounds of ``loop``: where loops are
    inside it, an element is one round's of each of them, and the same in all rounds of ``loop``."""
    if s.width != 1 or not isinstance(s.buffer.type, Array | Ptr) or isinstance(s.buffer.type.elem, Vec):
        return False
    if isinstance(s.buffer.type, Array) and s.buffer.type.space == "shared":
        return False  # another thread's updates would come between those of one
    moving = {v for i in s.index for v in used(i)} & (own | {loop.var})
    return not around or (not moving - {x.var for x in around} and all(apart(s, x) for x in around))


_LEAVES = (Const, Var)
_ARITHMETIC = frozenset("+-*|^")
_CALLS = frozenset({"fma", "fmaf", "max", "min"})


def _is_plain(e: Expr) -> bool:
    """Whether ``e`` does one operation on its operands, of which no coverage is kept."""
    if isinstance(e, Call):
        return e.fn in _CALLS and scalar_of(e.type).is_float and not any(isinstance(x, Const) for x in e.args)
    return (
        (isinstance(e, Binary) and e.op in _ARITHMETIC)
        or (isinstance(e, Unary) and e.op == "-")
        or (isinstance(e, Cast) and e.style != "bit" and scalar_of(e.x.type).kind != "bool")
    )


def _split(e: Expr, s: Assign | Store, old: Sym, terms: dict[Sym, Expr]) -> Expr | None:
    """``e`` with ``old`` for what ``s`` updates, and a variable of ``terms`` for each part that has nothing to do with
    that; None where something between the two is not plain."""
    if isinstance(e, Const | Knob):
        return e
    if _is_old(e, s):
        return Var(old)
    if not any(_mentions(x, _target(s)) for x in walk_expr(e)):
        if not isinstance(e.type, Scalar):
            return None
        term = fresh("term", e.type)
        terms[term] = e
        return Var(term)
    if not _is_plain(e):
        return None
    parts: dict[int, Expr] = {}
    for x in children(e):
        part = _split(x, s, old, terms)
        if part is None:
            return None
        parts[id(x)] = part
    return with_children(e, lambda x: parts[id(x)])


def _is_old(e: Expr, s: Assign | Store) -> bool:
    if isinstance(s, Assign):
        return isinstance(e, Var) and e.sym == s.sym
    return isinstance(e, Load) and (e.buffer, e.index, e.width, e.cache) == (s.buffer, s.index, 1, "")


@dataclass(frozen=True)
class _Turns:
    """Lanes that update one thing, one after another: ``order`` has those of each side by side, from ``starts`` on."""

    order: np.ndarray
    starts: np.ndarray
    counts: np.ndarray

    @property
    def firsts(self) -> np.ndarray:
        """The first lane of each."""
        return self.order[self.starts]

    @cached_property
    def longest_first(self) -> np.ndarray:
        """The things by how often they are updated: those that have a turn left are always at the front."""
        return np.argsort(-self.counts, kind="stable")

    def __iter__(self) -> Iterator[np.ndarray]:
        """Turn by turn, the lanes whose it is: of the first so many things of :attr:`longest_first`."""
        starts, counts = self.starts[self.longest_first], self.counts[self.longest_first]
        left = np.searchsorted(-counts, -np.arange(int(counts.max(initial=0))), side="left")
        for turn, many in enumerate(left):
            yield self.order[starts[:many] + turn]


def _turns(keys: np.ndarray, by_lane: bool) -> _Turns:
    """The turns of lanes, by what each updates: things in the order of their first lanes (``by_lane``) or keys."""
    again = np.flatnonzero(keys[1:] == keys[:1])
    each = int(again[0]) + 1 if len(again) else len(keys)  # as the rounds of threads that have equally many come
    number = len(keys) // max(each, 1)
    if (
        number * each == len(keys)
        and (np.diff(keys[:each]) > 0).all()
        and (keys.reshape(-1, each) == keys[:each]).all()
    ):
        order = np.arange(len(keys)).reshape(number, each).T.ravel()
        return _Turns(order, np.arange(each) * number, np.full(each, number))
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    counts = np.diff(np.append(starts, len(keys)))
    if by_lane:
        sequence = np.argsort(order[starts])
        starts, counts = starts[sequence], counts[sequence]
    return _Turns(order, starts, counts)


def accumulate(machine: Machine, a: Accumulation, frame: Frame, act: Active) -> None:
    """The updates of all lanes of ``act``; those of one thread's element (or variable) in the order of the lanes."""
    terms = {sym: machine.ev(e, frame, act) for sym, e in a.terms}
    for e in a.places:  # for what is noted of remainders and choices in them
        machine.ev(e, frame, act)
    if isinstance(a.stmt, Assign):
        _update_variable(machine, a, a.stmt.sym, terms, frame, act)
    else:
        _update_elements(machine, a, a.stmt, terms, frame, act)


def _update_variable(machine: Machine, a: Accumulation, sym: Sym, terms: Terms, frame: Frame, act: Active) -> None:
    owner, rows = frame.find(sym, act)
    rows = owner.lanes(rows)
    turns = _turns(rows, by_lane=False)
    mine = rows[turns.firsts]
    before = machine.ev(Var(sym), owner, mine)
    owner.assign(sym, _updated(machine, a, before, terms, turns), mine)


def _update_elements(machine: Machine, a: Accumulation, s: Store, terms: Terms, frame: Frame, act: Active) -> None:
    index = [machine.ev(i, frame, act) for i in s.index]
    lanes = frame.lanes(act)
    where = access(machine.state, s.buffer, frame, act, index, 1)
    places = np.broadcast_to(where.pos, lanes.shape)
    inside = np.flatnonzero(np.broadcast_to(where.ok, lanes.shape)) if where.ok is not None else np.arange(len(lanes))
    if not len(inside):
        return  # all of them are reported, and nothing is there to update
    turns = _turns(places[inside], by_lane=True)
    turns = replace(turns, order=inside[turns.order])

    def at(chosen: np.ndarray) -> Access:
        return access(machine.state, s.buffer, frame, lanes[chosen], [_of(i, chosen) for i in index], 1)

    if _one_thread_each(machine, turns, frame, act):
        elements = at(turns.firsts)
        elements.write(_updated(machine, a, elements.read(), terms, turns))
        return
    threads = machine.state.by_thread(frame, act)[1][inside]  # they race for an element: in lockstep, as they are
    turns = _turns(places[inside] * (int(threads.max(initial=0)) + 1) + threads, by_lane=True)
    for chosen in map(np.sort, replace(turns, order=inside[turns.order])):
        elements, each = at(chosen), np.arange(len(chosen))
        elements.write(_updated(machine, a, elements.read(), terms, _Turns(chosen, each, np.ones_like(each))))


def _one_thread_each(machine: Machine, turns: _Turns, frame: Frame, act: Active) -> bool:
    """Whether each thing is one thread's."""
    threads = machine.state.by_thread(frame, act)[1][turns.order]
    by_place = np.argsort(turns.starts)
    return bool((threads == np.repeat(threads[turns.starts[by_place]], turns.counts[by_place])).all())


def _updated(machine: Machine, a: Accumulation, before: Any, terms: Terms, turns: _Turns) -> np.ndarray:
    """What is there after all turns, where ``before`` was."""
    all_of_it = np.array(spread(before, len(turns.starts)))
    now = all_of_it[turns.longest_first]
    for turn, lanes in enumerate(turns):
        many = len(lanes)
        if turn:  # the first one counts as the statement
            machine.state.burn(many)
        scratch = Frame(many)
        scratch.values = {a.old: now[:many], **{sym: _of(v, lanes) for sym, v in terms.items()}}
        now[:many] = machine.ev(a.value, scratch, None)
    all_of_it[turns.longest_first] = now
    return all_of_it


def _of(value: Any, lanes: np.ndarray) -> Any:
    """The values of some lanes."""
    return value if is_uniform(value) else value[lanes]


__all__ = ["Accumulation", "accumulate", "accumulation"]
