"""Loads that a loop may be waiting by: ``while (ld.global.cg(flag) == 0);``, written as a volatile PTX statement.

Such a statement must be carried out each time, at its place. Of one on whose value no loop around it depends, nothing
else can be meant than the element that is there: no thread goes on because of what it has read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ktc.ir.nodes import Body, Break, Continue, Decl, Expr, For, If, Return, Stmt, Sym, While, bodies
from ktc.ir.walk import assigned, stmt_exprs, used, used_in, walk


def any_awaited(body: Body, loaded: Collection[Sym]) -> bool:
    """Whether a loop of ``body`` may end, or leave iterations out, by what is loaded within it into one of the
    variables ``loaded``."""
    return bool(loaded) and any(
        _depends(s, within)
        for s in walk(body)
        if isinstance(s, For | While) and (within := {x.sym for x in walk(s.body) if isinstance(x, Decl)} & {*loaded})
    )


def _depends(loop: For | While, loaded: set[Sym]) -> bool:
    """Whether what ends ``loop`` is made of what is ``loaded`` in it, by values or by conditions, in any order."""
    made = set(loaded)
    more = True
    while more:
        before = len(made)
        for s in walk(loop.body):
            if any(used(e) & made for e in _conditions(s)) or (not bodies(s) and used_in((s,)) & made):
                made |= assigned((s,)) | ({s.sym} if isinstance(s, Decl) else set())
        more = len(made) > before
    return any(used(e) & made for e in (*stmt_exprs(loop), *_leaving(loop.body, ())))


def _leaving(body: Body, under: tuple[Expr, ...]) -> Iterator[Expr]:
    """The conditions under which an iteration is left before its end."""
    for s in body:
        if isinstance(s, Break | Continue | Return):
            yield from under
        inside = (*under, *_conditions(s))
        for inner in bodies(s):
            yield from _leaving(inner, inside)


def _conditions(s: Stmt) -> tuple[Expr, ...]:
    """What says whether, and how often, the statements in ``s`` are carried out."""
    return tuple(stmt_exprs(s)) if isinstance(s, For | If | While) else ()


__all__ = ["any_awaited"]
