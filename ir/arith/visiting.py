"""Statements with the facts that hold where they begin: guards around them, early exits before them, loops they are in.

if (i >= n) return;         after it: i < n
for (k = 0; k < d; ..)      in it: 0 <= k < d
  x = k / 2                 after it: what is known of x here
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

from ktc.ir.nodes import BODY_FIELDS, Body, Break, Continue, Decl, Expr, If, Return, Stmt, While, bodies


class Knowing(Protocol):
    """What is known at one place, and how more becomes known from there on."""

    def under(self: _K, condition: Expr, holds: bool = True) -> _K: ...

    def inside(self: _K, loop: Stmt) -> _K: ...

    def naming(self: _K, s: Decl) -> _K: ...


_K = TypeVar("_K", bound=Knowing)
_LEAVES = Return | Break | Continue


def visited(body: Body, known: _K, asked: Callable[[Body], bool] = bool) -> Iterator[tuple[Stmt, _K]]:
    """Every statement in ``body``, parents first, in source order, with what is known where it begins; nothing of lists
    that are not ``asked`` about."""
    for s, here in steps(body, known):
        yield s, here
        for _, inner, there in entered(s, here, asked):
            yield from visited(inner, there, asked)


def steps(body: Body, known: _K) -> Iterator[tuple[Stmt, _K]]:
    """The statements of one list, with what is known where each begins."""
    for s in body:
        yield s, known
        if isinstance(s, If):
            if _leaves(s.then):
                known = known.under(s.cond, False)
            elif _leaves(s.orelse):
                known = known.under(s.cond)
        elif isinstance(s, Decl):
            known = known.naming(s)


def entered(s: Stmt, known: _K, asked: Callable[[Body], bool] = bool) -> Iterator[tuple[str, Body, _K]]:
    """The lists in ``s`` that are ``asked`` about, by the names of their fields, with what is known where they begin;
    ``known``: what is where ``s`` does."""
    if isinstance(s, If):
        if asked(s.then):
            yield "then", s.then, known.under(s.cond)
        if asked(s.orelse):
            yield "orelse", s.orelse, known.under(s.cond, False)
    elif isinstance(s, While):
        if asked(s.body):
            yield "body", s.body, known if s.post else known.under(s.cond)
    else:
        for name, inner in zip(BODY_FIELDS.get(type(s), ()), bodies(s)):
            if asked(inner):
                yield name, inner, known.inside(s)


class Places(Generic[_K]):
    """What is known where single statements of ``body`` begin, found for those that are asked about and what stands
    before and around them: to know it everywhere takes far longer than to know it of one loop."""

    def __init__(self, body: Body, known: _K) -> None:
        self._known = known
        self._at: dict[int, _Place] = {}
        self._lists: dict[_List, tuple[Iterator[tuple[Stmt, _K]], dict[int, _K]]] = {}
        self._note(body, _List(None, ""))

    def _note(self, body: Body, of: _List) -> None:
        for s in body:
            self._at[id(s)] = _Place(of, s)
            for name, inner in zip(BODY_FIELDS.get(type(s), ()), bodies(s)):
                self._note(inner, _List(id(s), name))
        if of.around is None:
            self._lists[of] = (steps(body, self._known), {})

    def at(self, s: Stmt) -> _K:
        """What is known where ``s`` begins; of a statement that is not in the body, what is known of all of it."""
        place = self._at.get(id(s))
        if place is None:
            return self._known
        coming, found = self._list(place.of)
        while id(s) not in found:
            passed, known = next(coming)
            found[id(passed)] = known
        return found[id(s)]

    def _list(self, of: _List) -> tuple[Iterator[tuple[Stmt, _K]], dict[int, _K]]:
        if of not in self._lists:
            assert of.around is not None
            around = self._at[of.around].statement
            fields = zip(BODY_FIELDS[type(around)], bodies(around))
            mine = next(inner for name, inner in fields if name == of.name)
            entries = entered(around, self.at(around), lambda inner: inner is mine)
            known = next(there for name, _, there in entries if name == of.name)
            self._lists[of] = (steps(mine, known), {})
        return self._lists[of]


class _List(NamedTuple):
    """A list of statements: of the statement whose ``id`` is ``around`` the field ``name``; None: the outermost one."""

    around: int | None
    name: str


class _Place(NamedTuple):
    of: _List
    statement: Stmt


def _leaves(body: Body) -> bool:
    """Whether nothing that stands after ``body`` runs when it did."""
    if not body:
        return False
    last = body[-1]
    return isinstance(last, _LEAVES) or (isinstance(last, If) and _leaves(last.then) and _leaves(last.orelse))


__all__ = ["Places", "entered", "steps", "visited"]
