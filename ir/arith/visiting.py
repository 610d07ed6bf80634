"""Statements with the facts that hold where they begin: guards around them, early exits before them, loops they are in.

if (i >= n) return;         after it: i < n
for (k = 0; k < d; ..)      in it: 0 <= k < d
  x = k / 2                 after it: what is known of x here
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ktc.ir.nodes import Body, Break, Continue, Decl, For, If, Return, Stmt, While, bodies

if TYPE_CHECKING:
    from .kernel_facts import Facts

_LEAVES = Return | Break | Continue


def visited(body: Body, facts: Facts) -> Iterator[tuple[Stmt, Facts]]:
    """Every statement in ``body``, parents first, in source order, with the facts that hold where it begins."""
    for s in body:
        yield s, facts
        if isinstance(s, If):
            if s.then:
                yield from visited(s.then, facts.under(s.cond))
            if s.orelse:
                yield from visited(s.orelse, facts.under(s.cond, False))
            if _leaves(s.then):
                facts = facts.under(s.cond, False)
            elif _leaves(s.orelse):
                facts = facts.under(s.cond)
        elif isinstance(s, For):
            yield from visited(s.body, facts.inside(s))
        elif isinstance(s, While):
            yield from visited(s.body, facts if s.post else facts.under(s.cond))
        else:
            for inner in bodies(s):
                yield from visited(inner, facts.inside(s))
            if isinstance(s, Decl):
                facts = facts.naming(s)


def _leaves(body: Body) -> bool:
    """Whether nothing that stands after ``body`` runs when it did."""
    if not body:
        return False
    last = body[-1]
    return isinstance(last, _LEAVES) or (isinstance(last, If) and _leaves(last.then) and _leaves(last.orelse))


__all__ = ["visited"]
