"""Integers that are conditions: ``int ok = i < n; .. if (ok) ..``, or ``ok != 0``, as ``if (i < n) ..``."""

from __future__ import annotations

from ktc.ir.fold import is_const
from ktc.ir.nodes import Binary, Body, Cast, Decl, Expr, Sym, Unary, Var
from ktc.ir.purity import is_movable
from ktc.ir.types import BOOL, Scalar
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
        asked = _asked_about(e)
        meant = asked if asked is None else truth_of(asked)
        meant = flags.get(meant.sym, meant) if isinstance(meant, Var) else meant
        if meant is None or meant is asked or meant.type != BOOL:
            return e
        return Unary("!", meant) if isinstance(e, Binary) and e.op == "==" else meant

    new = map_body(body, keep, value) if flags else body
    return new if new == body else flags_in_place(new)


def _asked_about(e: Expr) -> Expr | None:
    """The integer of which the condition ``e`` asks whether it is 0; None where it asks something else."""
    if isinstance(e, Cast) and e.to == BOOL:
        return e.x
    return e.a if isinstance(e, Binary) and e.op in ("!=", "==") and is_const(e.b, 0) else None


def truth_of(e: Expr) -> Expr:
    """``e``, of which only whether it is 0 matters."""
    x = e
    while isinstance(x, Cast) and isinstance(x.to, Scalar) and x.to.is_int and x.style != "bit":
        x = x.x
    return x if x.type == BOOL else e


__all__ = ["flags_in_place", "truth_of"]
