"""Straight-line code made easier to follow: one name a value, conditional values as expressions.

x = a; ...; x = b; ...            ->    x = a; ...; x1 = b; ...
v = 0; if (c) v = e;              ->    v = c ? e : 0
if (c) v = a; else v = b;         ->    v = c ? a : b
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ktc.ir.fold import fold_node
from ktc.ir.nodes import (
    Assign,
    Body,
    Call,
    Const,
    Continue,
    Decl,
    Expr,
    For,
    If,
    Load,
    Par,
    Reduce,
    Select,
    Stmt,
    Sym,
    Var,
    WarpOp,
    While,
    fresh,
)  # fmt: skip
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, declared, initial_values, keep, map_body, mentions, rename, used, used_in, walk


def straightened(body: Body) -> Body:
    """Every list of ``body`` with conditional values as expressions and renamed reassignments."""
    return _list(_propagated(body))


def versioned(body: Body) -> Body:
    """``body`` with one name a value, so that nothing outlives its last use.

    A scalar that is assigned again in the list that declares it gets a new name there.
    """
    return _propagated(_versions(map_body(body, _versioned_inside)))


def _versioned_inside(s: Stmt) -> Stmt:
    if isinstance(s, If):
        return dataclasses.replace(s, then=_versions(s.then), orelse=_versions(s.orelse))
    if isinstance(s, For | While | Par | Reduce):
        return dataclasses.replace(s, body=_versions(s.body))
    return s


def sunk(body: Body, waits: Callable[[Stmt], bool]) -> Body:
    """Declarations that start a scalar from a number, moved down past the statements that ``waits`` holds for to the
    first use: a thread keeps nothing in it until then."""
    out = [_sunk_inside(s, waits) for s in body]
    for d in [d for d in out if isinstance(d, Decl) and _from_number(d)]:
        at = out.index(d)
        first = next((k for k in range(at + 1, len(out)) if d.sym in mentions(out[k])), 0)
        if first and any(waits(s) for s in out[at + 1 : first]):
            out.insert(first, d)
            out.pop(at)
    return tuple(out)


def _sunk_inside(s: Stmt, waits: Callable[[Stmt], bool]) -> Stmt:
    if isinstance(s, If):
        return dataclasses.replace(s, then=sunk(s.then, waits), orelse=sunk(s.orelse, waits))
    if isinstance(s, For | While):
        return dataclasses.replace(s, body=sunk(s.body, waits))
    return s


def _from_number(d: Decl) -> bool:
    return isinstance(d.sym.type, Scalar) and (d.init is None or not any(isinstance(e, Load | Call | Var | WarpOp)
                                                                         for e in _nodes(d.init)))  # fmt: skip


def _propagated(body: Body) -> Body:
    """Integer constants in place of the names that keep them."""
    while True:
        consts = {
            s: e
            for s, e in initial_values(body).items()
            if isinstance(e, Const) and isinstance(s.type, Scalar) and s.type.is_int
        }
        if not consts:
            return body
        body = map_body(body, lambda s, c=consts: None if isinstance(s, Decl) and s.sym in c else s)  # type: ignore[misc]
        body = map_body(body, keep, lambda e, c=consts: fold_node(c.get(e.sym, e) if isinstance(e, Var) else e))  # type: ignore[misc]


def _list(body: Body) -> Body:
    body = tuple(_inside(s) for s in body)
    return _propagated(_versions(_selects(body)))


def _inside(s: Stmt) -> Stmt:
    if isinstance(s, If):
        return dataclasses.replace(s, then=_list(s.then), orelse=_list(s.orelse))
    if isinstance(s, For | While | Par | Reduce):
        return dataclasses.replace(s, body=_list(s.body))
    return s


def _selects(body: Body) -> Body:
    out: list[Stmt] = []
    for s in body:
        new = _as_select(s, out)
        if new is not None:
            out[new[0] : new[0] + 1] = []
            out.append(new[1])
        else:
            out.append(s)
    return tuple(out)


def _as_select(s: Stmt, before: list[Stmt]) -> tuple[int, Stmt] | None:
    """(position of the declaration to drop, declaration with a conditional value) for ``if (c) v = a [else v = b]``."""
    if not isinstance(s, If) or len(s.then) != 1 or len(s.orelse) > 1:
        return None
    a = s.then[0]
    if not isinstance(a, Assign) or not isinstance(a.sym.type, Scalar) or a.sym in used(a.value) | used(s.cond):
        return None
    at = next((k for k in range(len(before) - 1, -1, -1) if _declares(before[k], a.sym)), None)
    if at is None:
        return None
    d = before[at]
    between = tuple(before[at + 1 :])
    assert isinstance(d, Decl)
    if a.sym in used_in(between) or a.sym in assigned(between):
        return None
    other: Expr | None = d.init
    if s.orelse:
        b = s.orelse[0]
        if not isinstance(b, Assign) or b.sym != a.sym or a.sym in used(b.value):
            return None
        other = b.value
    elif other is None or assigned(between) & used(other) or any(isinstance(x, Load) for x in _nodes(other)):
        return None
    return at, Decl(a.sym, Select(s.cond, a.value, other), loc=d.loc, comments=(*d.comments, *s.comments))


def counted(body: Body) -> Body:
    """``i = a; while (i < n) { B; i += c; }`` as a counted loop, where nothing else touches ``i``."""
    out: list[Stmt] = []
    for k, s in enumerate(body):
        if isinstance(s, If):
            s = dataclasses.replace(s, then=counted(s.then), orelse=counted(s.orelse))
        elif isinstance(s, For | While):
            s = dataclasses.replace(s, body=counted(s.body))
        loop = _counted(s, out, body[k + 1 :]) if isinstance(s, While) else None
        if loop is None:
            out.append(s)
        else:
            out = [d for d in out if not (isinstance(d, Decl) and d.sym == loop.var)]
            out.append(loop)
    return tuple(out)


def _counted(s: While, before: list[Stmt], after: Body) -> For | None:
    last = s.body[-1] if s.body else None
    if s.post or not isinstance(last, Assign) or last.sym not in used(s.cond) or last.sym not in used(last.value):
        return None
    v, t = last.sym, last.sym.type
    at = next((k for k, d in enumerate(before) if _declares(d, v)), None)
    if at is None or not (isinstance(t, Scalar) and t.is_int):
        return None
    d, rest = before[at], tuple(before[at + 1 :])
    assert isinstance(d, Decl)
    if d.init is None or v in used_in(rest) | assigned(rest) | used_in(after) | assigned(s.body[:-1]):
        return None
    if used(d.init) & assigned(rest) or any(isinstance(x, Load) for x in _nodes(d.init)):
        return None
    inner = assigned(s.body) | set(declared(s.body))
    if (used(last.value) - {v}) & inner or any(isinstance(x, Continue) for x in walk(s.body)):
        return None
    tags = frozenset({f"loop:{v.name}"})
    comments = (*d.comments, *s.comments)
    return For(v, d.init, s.cond, last.value, s.body[:-1], loc=s.loc, comments=comments, tags=tags)


def _declares(s: Stmt, v: Sym) -> bool:
    return isinstance(s, Decl) and s.sym == v


def _nodes(e: Expr):
    from ktc.ir.walk import walk_expr

    return walk_expr(e)


def _versions(body: Body) -> Body:
    """Scalars that this list declares and assigns again, under a new name from each such assignment on."""
    mine = {s.sym for s in body if isinstance(s, Decl) and isinstance(s.sym.type, Scalar)}
    again = {s.sym for s in body if isinstance(s, Assign)} & mine
    other = {x for s in walk(body) for x in (getattr(s, "dst", None), *(o for _, o in getattr(s, "outputs", ())))}
    again -= other  # type: ignore[arg-type]
    if not again:
        return body
    out: list[Stmt] = []
    now: dict[Sym, Sym] = {}
    for s in body:
        if isinstance(s, Assign) and s.sym in again:
            value = map_body((s,), lambda t: t, lambda e: Var(now.get(e.sym, e.sym)) if isinstance(e, Var) else e)[0]
            assert isinstance(value, Assign)
            now[s.sym] = fresh(s.sym.name, s.sym.type)
            out.append(Decl(now[s.sym], value.value, loc=s.loc, comments=s.comments))
        else:
            out += rename((s,), now) if now else (s,)
    live = used_in(tuple(out)) | assigned(tuple(out))
    return tuple(s for s in out if not (isinstance(s, Decl) and s.init is None and s.sym in again - live))
