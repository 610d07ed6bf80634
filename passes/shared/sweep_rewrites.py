"""Sweeps rewritten to keep a value for later ones, or to take it from where an earlier one kept it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from ktc.ir.arith.polynomial import same_value
from ktc.ir.nodes import Decl, Expr, Load, Reduce, Stmt, Store, Sym, Var, fresh, has_bodies
from ktc.ir.purity import is_removable
from ktc.ir.walk import assigned, used, used_in
from ktc.passes.core.named_loops import Loop

from .sweep_views import reached, unconditional, view_of

Rows = Mapping[Expr, tuple[Sym, Expr]]
"""By value: the array that keeps it, and how far that is filled."""


def replace_values(loop: Loop, rows: Rows) -> Loop:
    """``loop`` reading ``row[i]`` where it computes a value (over its own variable) for an ``i`` that is known to be
    below the row's end, and has written nothing yet that the value is read from; unread constants go."""
    view = view_of(loop, 0)
    written = set[Sym]()

    def swap(e: Expr, end: Expr) -> Expr | None:
        value = view.value_of(e, loop.var)
        found = None if isinstance(e, Var) or used(value) & written else rows.get(value)
        return None if found is None or not same_value(found[1], end) else Load(found[0], (Var(loop.var),))

    def taken(e: Expr, end: Expr) -> Expr:
        new = swap(e, end)
        return new if new is not None else _rebuilt(e, {id(x): taken(x, to) for x, to in reached(e, loop.var, end)})

    def whole(e: Expr) -> Expr:
        return taken(e, loop.hi)

    body: list[Stmt] = []
    for s in loop.body:
        body.append(_mapped_stmt(s, whole))
        written |= assigned((s,))
    return _without_dead(_map_accs(dataclasses.replace(loop, body=tuple(body)), whole))


def load_ahead(loop: Loop, value: Expr, row: Sym, name: str) -> Loop:
    """``loop`` that also loads ``value`` (over its variable) into ``row[i]``."""
    sym = fresh(name, value.type)
    front = (Decl(sym, value, const=True, loc=loop.loc), Store(row, (Var(loop.var),), Var(sym)))
    return dataclasses.replace(loop, body=(*loop.body, *front))


def store_value(loop: Loop, value: Expr, row: Sym, name: str) -> Loop:
    """``loop`` storing ``value`` (over its variable) to ``row[i]`` where it first computes it, under a name."""
    view = view_of(loop, 0)
    body = list(loop.body)
    for k, s in enumerate(body):
        if isinstance(s, Decl) and s.init is not None and view.value_of(s.init, loop.var) == value:
            kept = Store(row, (Var(loop.var),), Var(s.sym))
            return dataclasses.replace(loop, body=(*body[: k + 1], kept, *body[k + 1 :]))
    sym = fresh(name, value.type)
    spelled: list[Expr] = []

    def swap(e: Expr) -> Expr | None:
        if isinstance(e, Var) or view.value_of(e, loop.var) != value:
            return None
        spelled.append(e)
        return Var(sym)

    for k, s in enumerate(body):
        new = _mapped_stmt(s, swap)
        if spelled:
            front = (Decl(sym, spelled[0], const=True, loc=s.loc), Store(row, (Var(loop.var),), Var(sym)))
            rest = tuple(_mapped_stmt(t, swap) for t in body[k + 1 :])
            done = dataclasses.replace(loop, body=(*body[:k], *front, new, *rest))
            return _map_accs(done, swap)
    done = _map_accs(loop, swap)
    front = (Decl(sym, spelled[0], const=True, loc=loop.loc), Store(row, (Var(loop.var),), Var(sym)))
    return dataclasses.replace(done, body=(*done.body, *front))


Swap = Callable[[Expr], Expr | None]


def _map_accs(loop: Loop, swap: Swap) -> Loop:
    if not isinstance(loop, Reduce):
        return loop
    accs = tuple(dataclasses.replace(a, value=_map_down(a.value, swap)) for a in loop.accs)
    return dataclasses.replace(loop, accs=accs)


def _mapped_stmt(s: Stmt, swap: Swap) -> Stmt:
    if has_bodies(s):
        return s
    own = ((n, getattr(s, n, None)) for n in ("init", "value"))
    changes: dict[str, Any] = {n: _map_down(e, swap) for n, e in own if isinstance(e, Expr)}
    return dataclasses.replace(s, **changes) if changes else s


def _map_down(e: Expr, swap: Swap) -> Expr:
    """``e`` with the outermost nodes that ``swap`` answers for replaced, in unconditional positions."""
    new = swap(e)
    return new if new is not None else _rebuilt(e, {id(x): _map_down(x, swap) for x in unconditional(e)})


def _rebuilt(e: Expr, new: Mapping[int, Expr]) -> Expr:
    """``e`` with the operands of these identities replaced."""
    changes: dict[str, Any] = {}
    for f in dataclasses.fields(e):
        v = getattr(e, f.name)
        if isinstance(v, Expr) and id(v) in new:
            changes[f.name] = new[id(v)]
        elif isinstance(v, tuple) and any(id(x) in new for x in v):
            changes[f.name] = tuple(new.get(id(x), x) for x in v)
    return dataclasses.replace(e, **changes) if changes else e


def _without_dead(loop: Loop) -> Loop:
    """``loop`` without declarations that nothing reads any more."""
    while True:
        read = used_in((loop,)) | assigned(loop.body)
        body = tuple(
            s
            for s in loop.body
            if not (isinstance(s, Decl) and s.sym not in read and (s.init is None or is_removable(s.init)))
        )
        if len(body) == len(loop.body):
            return loop
        loop = dataclasses.replace(loop, body=body)


__all__ = ["load_ahead", "replace_values", "store_value"]
