"""Scalars whose values from before a piece of code it may read."""

from __future__ import annotations

from ktc.ir.nodes import Assign, Body, Decl, For, If, Stmt, Sym, Var, While, has_bodies
from ktc.ir.support.memo import by_identity
from ktc.ir.walk import stmt_exprs, used_in, walk_expr


def live_in(region: Body) -> list[Sym]:
    """Scalars that ``region`` may read before it writes them, in order of first reading."""
    return list(_flow(region)[0])


def live_before(body: Body, behind: frozenset[Sym]) -> frozenset[Sym]:
    """Scalars that are read behind the point before ``body``, of which ``behind`` are read behind it; where no
    statement of ``body`` jumps."""
    read, written = _flow(body)
    return frozenset(read) | (behind - written)


def _flow(body: Body) -> tuple[dict[Sym, None], frozenset[Sym]]:
    """What ``body`` may read before it writes it, in order of first reading, and what it has written at its end."""
    read: dict[Sym, None] = {}
    written = frozenset[Sym]()
    for s in body:
        first, made = _flow_of(s)
        read |= dict.fromkeys(v for v in first if v not in written)
        written |= made
    return read, written


@by_identity(4096)
def _flow_of(s: Stmt) -> tuple[dict[Sym, None], frozenset[Sym]]:
    """:func:`_flow` of one statement: asked again for each region that it is in."""
    read = dict.fromkeys(x.sym for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Var))
    if isinstance(s, Decl | Assign):
        return read, frozenset({s.sym})
    if isinstance(s, If):
        (first, made), (other, also) = _flow(s.then), _flow(s.orelse)
        return read | first | other, made & also
    if isinstance(s, For | While):
        inside = dict(_flow(s.body)[0])
        if isinstance(s, For):
            inside.pop(s.var, None)
        return read | inside, frozenset()
    return read | (dict.fromkeys(used_in((s,))) if has_bodies(s) else {}), frozenset()


__all__ = ["live_before", "live_in"]
