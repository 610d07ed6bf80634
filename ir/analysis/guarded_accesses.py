"""Accesses to buffers, each with the facts that hold where it happens.

``if (i >= n) return; for (j = 0; j < m; ++j) y[i * m + j] = 0;`` gives ``y[i * m + j]`` where ``i < n`` and ``j < m``.
A subscript that chooses (``x[i > 0 ? i - 1 : 0]``) is two, each where it is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ktc.ir.arith import Facts
from ktc.ir.fields import children
from ktc.ir.nodes import Atomic, Binary, Expr, For, Load, Select, Stmt, Store, Sym, Var
from ktc.ir.walk import map_expr, stmt_exprs, walk_expr

CHOICES = 4
"""Of one subscript, that are taken apart."""

Index = tuple[Expr, ...]


@dataclass(frozen=True)
class GuardedAccess:
    """One textual access to ``width`` elements, and what holds there."""

    buffer: Sym
    index: Index
    width: int | Expr
    facts: Facts


def guarded_accesses(facts: Facts) -> Iterator[GuardedAccess]:
    """Every access to memory in the body of the kernel of ``facts``, in SPMD form, in the order of its text."""
    for s, here in facts.visit(facts.kernel.body):
        for a in _of_statement(s, here):
            for index, there in _chosen(a.index, a.facts, CHOICES):
                yield GuardedAccess(a.buffer, index, a.width, there)


def _of_statement(s: Stmt, facts: Facts) -> Iterator[GuardedAccess]:
    if isinstance(s, For):
        yield from _of_expr(s.init, facts)
        yield from _of_expr(s.cond, facts)
        yield from _of_expr(s.step, facts.inside(s))
        return
    for e in stmt_exprs(s):
        yield from _of_expr(e, facts)
    if isinstance(s, Store):
        yield GuardedAccess(s.buffer, s.index, s.width, facts)
    elif isinstance(s, Atomic):
        yield GuardedAccess(s.buffer, s.index, 1, facts)


def _of_expr(e: Expr, facts: Facts) -> Iterator[GuardedAccess]:
    if not any(isinstance(x, Load) for x in walk_expr(e)):
        return
    if isinstance(e, Binary) and e.op in ("&&", "||"):
        yield from _of_expr(e.a, facts)
        yield from _of_expr(e.b, facts.under(e.a, e.op == "&&"))
    elif isinstance(e, Select):
        yield from _of_expr(e.cond, facts)
        yield from _of_expr(e.a, facts.under(e.cond))
        yield from _of_expr(e.b, facts.under(e.cond, False))
    else:
        if isinstance(e, Load):
            yield GuardedAccess(e.buffer, e.index, e.width, facts)
        for x in children(e):
            yield from _of_expr(x, facts)


def _chosen(index: Index, facts: Facts, most: int) -> Iterator[tuple[Index, Facts]]:
    """``index`` for each way in which it chooses, itself or by a name in it."""
    index = tuple(_spelled(e, facts) for e in index) if most else index
    choice = next((x for e in index for x in walk_expr(e) if isinstance(x, Select)), None) if most else None
    if choice is None:
        yield index, facts
        return
    for arm, holds in ((choice.a, True), (choice.b, False)):

        def taken(x: Expr, arm: Expr = arm) -> Expr:
            return arm if x == choice else x

        there = _under(choice.cond, holds, facts)
        yield from _chosen(tuple(map_expr(e, taken) for e in index), there, most - 1)


def _spelled(e: Expr, facts: Facts) -> Expr:
    """``e`` with what names in it stand for, where that chooses."""
    names = facts.symbols.names

    def on(x: Expr) -> Expr:
        if not isinstance(x, Var) or x.sym not in names:
            return x
        meant = _spelled(names[x.sym], facts)
        return meant if any(isinstance(y, Select) for y in walk_expr(meant)) else x

    return map_expr(e, on)


def _under(cond: Expr, holds: bool, facts: Facts) -> Facts:
    """``facts`` where ``cond`` comes out as ``holds``. Of two numbers that differ, the one that is never larger is
    smaller: ``i == n - 1 ? i : i + 1`` adds to what is less than ``n - 1``."""
    there = facts.under(cond, holds)
    if isinstance(cond, Binary) and cond.op == ("!=" if holds else "=="):
        for small, large in ((cond.a, cond.b), (cond.b, cond.a)):
            if facts.at_most(small, large):
                return there.under(Binary("<", small, large))
    return there


__all__ = ["GuardedAccess", "guarded_accesses"]
