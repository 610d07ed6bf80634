"""Loops over what is computed of them: ``par i in 0..n - 2 { x = i + 1; B }`` is ``par x in 1..n - 1 { B }``."""

from __future__ import annotations

import dataclasses
from collections import Counter

from ktc.ir.fold import add, simplify
from ktc.ir.nodes import Binary, Body, Const, Decl, Par, Stmt, Sym, Var
from ktc.ir.walk import all_exprs, assigned, map_body


def over_offsets(body: Body) -> Body:
    """Parallel loops whose variable is only there to have a number added, as loops over the sum."""
    changed = assigned(body)
    uses = Counter(e.sym for e in all_exprs(body) if isinstance(e, Var))

    def on(s: Stmt) -> Stmt:
        if not isinstance(s, Par) or uses[s.var] != 1:
            return s
        found = _offset(s.body, s.var)
        if found is None or found[0] in changed or found[0].type != s.var.type:
            return s
        named, by = found
        lo, hi = (simplify(add(e, by)) for e in (s.lo, s.hi))
        return dataclasses.replace(s, var=named, lo=lo, hi=hi, body=_without(s.body, named))

    return map_body(body, on)


def _offset(body: Body, var: Sym) -> tuple[Sym, Const] | None:
    """The variable that a nest's body declares first as ``var`` plus a number, and the number."""
    for s in body:
        match s:
            case Decl(sym, Binary("+", Var(v), Const() as by)) if v == var:
                return sym, by
            case Par():
                return _offset(s.body, var) if len(body) == 1 else None
            case Decl():
                continue
        return None
    return None


def _without(body: Body, named: Sym) -> Body:
    """``body`` without the declaration of ``named``."""

    def on(s: Stmt) -> Stmt | Body:
        return () if isinstance(s, Decl) and s.sym == named else s

    return map_body(body, on)
