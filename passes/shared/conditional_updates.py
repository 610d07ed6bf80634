"""Variables that a loop keeps or replaces by one choice, written value by value, as one conditional.

before                                          after
    let better: bool = x[i] > best                  if x[i] > best
    at = better ? i : at                              best = x[i]
    best = better ? x[i] : best                       at = i

An iteration is followed from its start to its end, so that copies and the order of the assignments do not matter.
Maxima that go with what is chosen by the same comparison are chosen by it, too: of variables that are numbers (not NaN)
that is the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from ktc.ir.analysis.accumulators import BETTER
from ktc.ir.fold import is_const, simplify
from ktc.ir.nodes import (
    MIRRORED,
    ORDERINGS,
    Assign,
    Binary,
    Body,
    Call,
    Decl,
    Expr,
    If,
    Load,
    Select,
    Sym,
    Var,
)
from ktc.ir.purity import is_removable
from ktc.ir.walk import assigned, declared, map_expr, substitute_expr, used, used_in, walk, walk_expr


def with_conditionals(body: Body) -> Body:
    """``body`` of a loop with such choices as conditionals at its end."""
    followed = _followed(body)
    if followed is None:
        return body
    after, tied = followed
    chosen: dict[Expr, dict[Sym, Expr]] = {}
    for v, e in after.items():
        if isinstance(e, Select) and e.b == Var(v):
            chosen.setdefault(e.cond, {})[v] = e.a
    for cond, taken in chosen.items():
        taken |= {v: e for v, e in ((v, _extreme(cond, v, e)) for v, e in after.items()) if e is not None}
        group = taken.keys()
        if used(cond) & after.keys() - group or any(used(e) & after.keys() for e in taken.values()):
            continue
        names = {v for v, on in tied.items() if on & group}
        rest = tuple(s for s in body if not (isinstance(s, Decl | Assign) and s.sym in names | group))
        if used_in(rest) & (names | group):
            continue
        sets = tuple(Assign(v, e) for v, e in taken.items())
        return with_conditionals((*rest, If(cond, sets, loc=body[-1].loc)))
    return body


def _followed(body: Body) -> tuple[dict[Sym, Expr], dict[Sym, set[Sym]]] | None:
    """What the variables from outside that ``body`` assigns, outside of conditionals alone, are after it, as functions
    of what they are before; and the names that it gives to what depends on which of them."""
    mine = set(declared(body))
    plain = {s.sym for s in body if isinstance(s, Assign)} - mine
    inner = {x.sym for s in body if not isinstance(s, Assign) for x in walk((s,)) if isinstance(x, Assign)}
    carried = plain - inner
    after: dict[Sym, Expr] = {v: Var(v) for v in carried}
    known: dict[Sym, Expr] = {}
    for s in body:
        if isinstance(s, Decl) and s.init is not None and s.sym not in assigned(body):
            e = _resolved(s.init, after, known)
            if used(e) & carried:
                known[s.sym] = e
        elif isinstance(s, Assign) and s.sym in carried:
            after[s.sym] = _resolved(s.value, after, known)
    moved = [e for e in (*after.values(), *known.values()) if used(e) & carried]
    if not carried or any(isinstance(x, Load) or not is_removable(e) for e in moved for x in walk_expr(e)):
        return None
    late = {v for e in moved for v in used(e)} & {s.sym for s in walk(body) if isinstance(s, Assign)}
    return None if late - carried else (after, {v: used(e) & carried for v, e in known.items()})


def _resolved(e: Expr, after: Mapping[Sym, Expr], known: Mapping[Sym, Expr]) -> Expr:
    return map_expr(substitute_expr(e, {**after, **known}), _decided)


def _decided(e: Expr) -> Expr:
    """``e``, where that asks which of two numbers was chosen, as what they were chosen by."""
    if isinstance(e, Binary) and e.op == "==" and isinstance(e.a, Select) and is_const(e.b):
        first, second = (simplify(Binary("==", x, e.b)) for x in (e.a.a, e.a.b))
        if is_const(first, 1) and is_const(second, 0):
            return e.a.cond
    return e


def _extreme(cond: Expr, v: Sym, e: Expr) -> Expr | None:
    """What ``v`` takes where ``cond`` holds, if ``e`` is the larger of the two that ``cond`` compares."""
    if not (isinstance(e, Call) and e.fn in BETTER and isinstance(cond, Binary) and cond.op in ORDERINGS):
        return None
    other = e.args[1] if e.args[0] == Var(v) else e.args[0]
    better = Binary(BETTER[e.fn], other, Var(v))
    turned = Binary(MIRRORED[cond.op], cond.b, cond.a)
    return other if Var(v) in e.args and better in (cond, turned) else None


__all__ = ["with_conditionals"]
