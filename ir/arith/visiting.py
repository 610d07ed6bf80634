"""Statements with the facts that hold where they begin: guards around them, early exits before them, loops they are in.

if (i >= n) return;         after it: i < n
for (k = 0; k < d; ..)      in it: 0 <= k < d
  x = k / 2                 after it: what is known of x here
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ktc.ir.nodes import Body, Break, Continue, Decl, If, Return, Stmt, While, bodies

if TYPE_CHECKING:
    from .kernel_facts import Facts

_LEAVES = Return | Break | Continue


def visited(body: Body, facts: Facts, asked: Callable[[Body], bool] = bool) -> Iterator[tuple[Stmt, Facts]]:
    """Every statement in ``body``, parents first, in source order, with the facts that hold where it begins; nothing of
    lists that are not ``asked`` about."""
    for s in body:
        yield s, facts
        if isinstance(s, If):
            if asked(s.then):
                yield from visited(s.then, facts.under(s.cond), asked)
            if asked(s.orelse):
                yield from visited(s.orelse, facts.under(s.cond, False), asked)
            if _leaves(s.then):
                facts = facts.under(s.cond, False)
            elif _leaves(s.orelse):
                facts = facts.under(s.cond)
        elif isinstance(s, While):
            if asked(s.body):
                yield from visited(s.body, facts if s.post else facts.under(s.cond), asked)
        else:
            for inner in filter(asked, bodies(s)):
                yield from visited(inner, facts.inside(s), asked)
            if isinstance(s, Decl):
                facts = facts.naming(s)


def _leaves(body: Body) -> bool:
    """Whether nothing that stands after ``body`` runs when it did."""
    if not body:
        return False
    last = body[-1]
    return isinstance(last, _LEAVES) or (isinstance(last, If) and _leaves(last.then) and _leaves(last.orelse))


__all__ = ["visited"]
