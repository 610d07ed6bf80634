"""Integers that are conditions: ``int ok = i < n; .. if (ok) ..`` as ``if (i < n) ..``."""

from __future__ import annotations

from ktc.ir.nodes import Body, Cast, Decl, Expr, Sym, Var
from ktc.ir.purity import is_movable
from ktc.ir.types import BOOL
from ktc.ir.walk import assigned, keep, map_body, used, walk


def flags_in_place(body: Body) -> Body:
    """``body`` with what integers that are conditions stand for where they are asked about."""
    changing = assigned(body)
    flags: dict[Sym, Expr] = {}
    for s in (s for s in walk(body) if isinstance(s, Decl) and s.init is not None and s.sym not in changing):
        assert s.init is not None
        meant = flags.get(s.init.sym) if isinstance(s.init, Var) else truth_of(s.init)
        if meant is not None and meant.type == BOOL and is_movable(meant) and not used(meant) & changing:
            flags[s.sym] = meant

    def value(e: Expr) -> Expr:
        if not isinstance(e, Cast) or e.to != BOOL:
            return e
        asked = truth_of(e.x)
        if isinstance(asked, Var) and asked.sym in flags:
            return flags[asked.sym]
        return e if asked is e.x else asked

    new = map_body(body, keep, value) if flags else body
    return new if new == body else flags_in_place(new)


def truth_of(e: Expr) -> Expr:
    """``e``, of which only whether it is 0 matters."""
    return e.x if isinstance(e, Cast) and e.x.type == BOOL else e


__all__ = ["flags_in_place", "truth_of"]
