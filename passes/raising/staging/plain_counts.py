"""Integers of a thread made plain before its copies are looked at: chosen by expressions, counted by all threads.

before                                                after
    int i, at;                                            int i1 = t < 2 ? t : t % 2 * 33;
    if (t < 2) i = t; else i = t % 2 * 33;                int at1 = i1 + b;
    at = i + b;                                           for (k) {
    for (k) {                                               if (in) { use(at1); }
      if (in) { use(at); at += n; }                         at1 += n;
    }                                                     }

Guesses: a thread that a guard sends past an assignment does not look at the variable, and what nothing has set yet is
never looked at.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.fold import cast
from ktc.ir.nodes import Assign, Binary, Body, Cast, Decl, Expr, For, HwIndex, If, Load, Select, Stmt, Sym, Var, fresh
from ktc.ir.purity import is_movable
from ktc.ir.types import BOOL, Scalar
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    map_body,
    substitute,
    substitute_expr,
    used,
    used_in,
    walk,
    walk_expr,
    with_bodies,
)
from ktc.passes.raising.normalise.flags import truth_of


def with_choices(body: Body) -> Body:
    """``body`` with branches that only assign integers as expressions that choose."""
    out: list[Stmt] = []
    unset = {s.sym for s in body if isinstance(s, Decl) and s.init is None}
    for s in body:
        if isinstance(s, If) and _only_integers((s,)):
            before: dict[Sym, Expr | None] = {v: None if v in unset else Var(v) for v in assigned((s,))}
            values = _values((s,), before)
            names = {v: fresh(v.name, v.type) for v in values}
            out += [Decl(names[v], e) for v, e in values.items() if e is not None]
            out += [Assign(v, Var(names[v]), loc=s.loc) for v, e in values.items() if e is not None]
        else:
            out.append(with_bodies(s, with_choices))
        unset -= assigned((s,))
    return tuple(out)


def _only_integers(body: Body) -> bool:
    """Whether all that ``body`` does is to assign integers that can be computed anywhere."""
    for s in body:
        if isinstance(s, If):
            if not (is_movable(s.cond) and _only_integers(s.then) and _only_integers(s.orelse)):
                return False
        elif not (isinstance(s, Assign) and _is_integer(s.sym) and is_movable(s.value)):
            return False
    return True


def _is_integer(v: Sym) -> bool:
    return isinstance(v.type, Scalar) and v.type.is_int


def _values(body: Body, before: Mapping[Sym, Expr | None]) -> dict[Sym, Expr | None]:
    """What variables hold after ``body``; None: nothing that anything has set."""
    now = dict(before)
    for s in body:
        known = {v: e for v, e in now.items() if e is not None}
        if isinstance(s, Assign):
            now[s.sym] = substitute_expr(s.value, known)
        elif isinstance(s, If):
            cond = substitute_expr(s.cond, known)
            then, orelse = _values(s.then, now), _values(s.orelse, now)
            now = {v: _chosen(cond, then[v], orelse[v]) for v in now}
    return now


def _chosen(cond: Expr, a: Expr | None, b: Expr | None) -> Expr | None:
    if a is None or b is None or a == b:
        return b if a is None else a
    asked = cond
    while isinstance(asked, Cast) and asked.to == BOOL:
        asked = asked.x
    if b == asked and isinstance(b.type, Scalar):  # 0, where it is not a
        return cast(Binary("&&", cond, cast(truth_of(a), BOOL)), b.type)
    return Select(cond, a, b)


def without_common_names(body: Body) -> Body:
    """``body`` without names for what is the same in all threads: they would keep the loops over blocks and threads
    apart."""
    names, own = definitions(body), set(declared(body))
    common = {v: whole for v, e in names.items() if not own & used(whole := expand(e, names)) and is_movable(whole)}
    common = {v: e for v, e in common.items() if not any(isinstance(x, HwIndex | Load) for x in walk_expr(e))}
    kept = tuple(s for s in body if not (isinstance(s, Decl) and s.sym in common))
    return substitute(kept, {s.sym: common[s.sym] for s in body if isinstance(s, Decl) and s.sym in common})


def counted_by_all(body: Body) -> Body:
    """``body`` with what its loops assign to integers under a guard that stands still assigned by all threads, spelled
    out, and in a variable of the iteration where the next one does not look at it."""

    def on(s: Stmt) -> Stmt:
        if not isinstance(s, For):
            return s
        moving = assigned(s.body) | set(declared(s.body)) | {s.var}
        names = {d.sym: d.init for d in s.body if isinstance(d, Decl) and d.init is not None}
        names = {v: e for v, e in names.items() if v not in assigned(s.body)}
        inner = [y for x in s.body for y in (_outside(x, moving) if isinstance(x, If) else (x,))]
        return dataclasses.replace(s, body=tuple(_spelled(x, names) for x in inner))

    body = map_body(body, on)
    return _own(body, body)


def _outside(s: If, moving: Collection[Sym]) -> Body:
    """``if (in) { .. i += n; .. }`` in pieces, what is assigned to integers between them."""
    if s.orelse or used(s.cond) & set(moving):
        return (s,)
    out: list[Stmt] = []
    for x in s.then:
        if isinstance(x, Assign) and _is_integer(x.sym) and is_movable(x.value):
            out.append(x)
        elif out and isinstance(last := out[-1], If) and last.cond == s.cond:
            out[-1] = dataclasses.replace(last, then=(*last.then, x))
        else:
            out.append(dataclasses.replace(s, then=(x,)))
    return tuple(out)


def _spelled(s: Stmt, names: Mapping[Sym, Expr]) -> Stmt:
    """``at = next`` as ``at = at + n``, where that is what the name stands for."""
    if isinstance(s, Assign) and isinstance(s.value, Var) and s.value.sym in names:
        value = names[s.value.sym]
        return dataclasses.replace(s, value=value) if s.sym in used(value) else s
    return s


def _own(body: Body, whole: Body) -> Body:
    """``body`` with variables that an iteration sets before it looks at them, and nothing else does, as its own."""

    def on(s: Stmt) -> Stmt:
        if not isinstance(s, For):
            return s
        out = s.body
        for k, x in enumerate(s.body):
            if not isinstance(x, Assign) or not isinstance(x.sym.type, Scalar):
                continue
            times = sum(isinstance(y, Assign) and y.sym == x.sym for y in walk(whole))
            if times != 1 or x.sym in used_in((*s.body[:k], x)) or _reads(whole, x.sym) != _reads(s.body, x.sym):
                continue
            name = fresh(x.sym.name, x.sym.type)
            later = substitute(out[k + 1 :], {x.sym: Var(name)})
            out = (*out[:k], Decl(name, x.value, loc=x.loc), *later)
        return dataclasses.replace(s, body=out)

    return map_body(body, on)


def _reads(body: Body, v: Sym) -> int:
    return sum(isinstance(e, Var) and e.sym == v for e in all_exprs(body))


__all__ = ["counted_by_all", "with_choices", "without_common_names"]
