"""Nests that take one maximum for each of several rows, as nests that take one for any of them.

``for i: for u: if g(u): m[u] = max(m[u], f(i, u))`` does for every ``u`` what ``if g(u): for i: p = max(p, f(i, u))``
does for one ``p``: rows keep apart, and a maximum does not depend on the order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ktc.ir.nodes import Assign, Body, Call, Decl, Expr, For, If, Load, Store, Sym, Var, WarpOp, fresh
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import all_exprs, assigned, map_stmt_exprs, stmt_exprs, used, walk, walk_expr


@dataclass(frozen=True)
class Row:
    """What a nest does for any one row ``copy.var``: the ``nest`` that gives ``into`` its value, in place of
    ``array[copy.var]``, where the ``guards`` hold."""

    nest: For
    into: Sym
    array: Sym
    copy: For
    guards: tuple[Expr, ...]


def row_of(s: For, into: Sym | None = None) -> Row | None:
    """``s`` as what it does for one row; None if it is no such nest."""
    store = _leaf((s,))
    if not isinstance(store, Store) or store.width != 1 or len(store.index) != 1:
        return None
    array, (index,) = store.buffer, store.index
    t = array.type
    private = isinstance(t, Array) and t.space != "shared" and isinstance(t.elem, Scalar) and len(t.shape) == 1
    copy = next((x for x in walk((s,)) if isinstance(x, For) and Var(x.var) == index), None)
    if not private or copy is None or not isinstance(store.value, Call) or not _keeps(s, array):
        return None
    assert isinstance(t, Array) and isinstance(t.elem, Scalar)
    into = into or fresh("largest of a row", t.elem)
    cell = Load(array, store.index)
    counted = {x.var for x in walk((s,)) if isinstance(x, For)} - {copy.var}
    made = {x.sym for x in walk((s,)) if isinstance(x, Decl)}
    steady = [x.cond for x in walk((s,)) if isinstance(x, If) and _steady(x.cond, counted | made | assigned((s,)))]
    own = [x for e in (copy.init, copy.cond, copy.step) for x in used(e) - {copy.var}]
    if own or store.value.args.count(cell) != 1:
        return None
    (nest, *more) = _row((s,), copy, steady, cell, into)
    if more or not isinstance(nest, For) or any(array in used(e) for x in walk((nest,)) for e in stmt_exprs(x)):
        return None
    return Row(nest, into, array, copy, tuple(steady))


def _leaf(body: Body) -> object:
    """The one statement inside, behind loops, guards and definitions."""
    rest = [x for x in body if not isinstance(x, Decl)]
    if len(rest) != 1 or (isinstance(rest[0], If) and rest[0].orelse):
        return None
    (s,) = rest
    return _leaf(s.then if isinstance(s, If) else s.body) if isinstance(s, If | For) else s


def _keeps(s: For, array: Sym) -> bool:
    """Whether nothing in ``s`` but its leaf has an effect, and its loops count as they say."""
    plain = all(isinstance(x, For | If | Decl | Store) for x in walk((s,)))
    exchanges = any(isinstance(e, WarpOp) or (isinstance(e, Call) and e.effects != "pure") for e in all_exprs((s,)))
    loops = [x.var for x in walk((s,)) if isinstance(x, For)]
    return plain and not exchanges and assigned((s,)) == {array} and len(set(loops)) == len(loops)


def _steady(cond: Expr, changing: set[Sym]) -> bool:
    """Whether a guard says the same all through the nest."""
    return not (used(cond) & changing) and not any(isinstance(e, Load) for e in walk_expr(cond))


def _row(body: Body, copy: For, steady: list[Expr], cell: Load, into: Sym) -> Body:
    """``body`` without the loop over rows and what guards whole rows."""

    def on(e: Expr) -> Expr:
        return Var(into) if e == cell else e

    out: list = []
    for s in body:
        if isinstance(s, Store):
            value = map_stmt_exprs(Assign(into, s.value), on)
            out.append(value)
        elif s is copy:
            out += _row(copy.body, copy, steady, cell, into)
        elif isinstance(s, If):
            inner = _row(s.then, copy, steady, cell, into)
            out += inner if s.cond in steady else [replace(s, then=inner)]
        elif isinstance(s, For):
            out.append(replace(s, body=_row(s.body, copy, steady, cell, into)))
        else:
            out.append(s)
    return tuple(out)


__all__ = ["Row", "row_of"]
