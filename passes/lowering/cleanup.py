"""Tidying of lowered code, so that it reads as a person would have written it.

* neighbouring ``if`` statements with one condition become one;
* a guard that holds nothing but index constants and another guard becomes one condition;
* an index constant that repeats an earlier one in scope is dropped and the earlier name used.
"""

from __future__ import annotations

import dataclasses
from typing import TypeGuard

from ktc.ir.arith.counted_loops import counting
from ktc.ir.nodes import Alloc, Binary, Body, Call, Const, Decl, Expr, For, If, Load, Raw, Stmt, Sym, Var, WarpOp, While
from ktc.ir.purity import is_movable, is_removable
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, map_stmt_exprs, used, walk_expr

IMPURE = (Load, Raw, Call, WarpOp)


def tidy(body: Body) -> Body:
    return reuse_indices(flatten_guards(merge_guards(body)), {}, {}, assigned(body))


def without_idle(body: Body) -> Body:
    """``body`` without counted loops and branches in which nothing stands: what is cut into whole parts and a rest may
    have no rest."""
    inside = (_inside(s, without_idle) for s in body)
    return tuple(s for s in inside if not _is_idle(s))


def _is_idle(s: Stmt) -> bool:
    if isinstance(s, If):
        return not s.then and not s.orelse and is_removable(s.cond)
    if not isinstance(s, For) or s.body or not is_removable(s.cond):
        return False
    form = counting(s)
    return form is not None and isinstance(form.by, Const) and int(form.by.value) > 0


def merge_guards(body: Body) -> Body:
    """``if (c) A; T x; if (c) B``  ->  ``T x; if (c) { A; B }`` when A does not change c."""
    out: list[Stmt] = []
    for s in body:
        s = _inside(s, merge_guards)
        k = len(out)
        while k and _bare_declaration(out[k - 1]):
            k -= 1
        prev = out[k - 1] if k else None
        if isinstance(s, If) and isinstance(prev, If) and _same_guard(prev, s):
            merged = dataclasses.replace(prev, then=merge_guards((*prev.then, *s.then)))
            out[k - 1 :] = [*out[k:], merged]
        else:
            out.append(s)
    return tuple(out)


def _same_guard(a: If, b: If) -> bool:
    """Whether ``b``, right after ``a``, runs exactly when ``a`` did."""
    return not a.orelse and not b.orelse and a.cond == b.cond and not (assigned(a.then) & used(a.cond))


def flatten_guards(body: Body) -> Body:
    """``if (a) { const int x = ...; if (b) S }``  ->  ``const int x = ...; if (a && b) S``."""
    out: list[Stmt] = []
    for s in body:
        s = _inside(s, flatten_guards)
        if isinstance(s, If) and not s.orelse and s.then and isinstance(s.then[-1], If) and not s.then[-1].orelse:
            front, inner = s.then[:-1], s.then[-1]
            if all(_is_index(d) and is_movable(_value(d)) for d in front):
                out += front
                s = dataclasses.replace(s, cond=Binary("&&", s.cond, inner.cond), then=inner.then)
        out.append(s)
    return tuple(out)


def _bare_declaration(s: Stmt) -> bool:
    return isinstance(s, Alloc) or (isinstance(s, Decl) and s.init is None)


def reuse_indices(body: Body, known: dict[Expr, Sym], env: dict[Sym, Expr], moving: set[Sym]) -> Body:
    """Drop ``const`` integer declarations whose (pure) value already has a name in scope.

    ``moving``: variables that are assigned somewhere: what is said of them is another value the next time.
    """
    known = dict(known)
    out: list[Stmt] = []

    def on(e: Expr) -> Expr:
        return env.get(e.sym, e) if isinstance(e, Var) else e

    for s in body:
        s = map_stmt_exprs(s, on)
        if _is_index(s) and not used(_value(s)) & moving:
            old = known.get(_value(s))
            if old is not None and old.type == s.sym.type:
                env[s.sym] = Var(old)
                continue
            known[_value(s)] = s.sym
        out.append(_inside(s, lambda b: reuse_indices(b, known, env, moving)))
    return tuple(out)


def _is_index(s: Stmt) -> TypeGuard[Decl]:
    """Whether ``s`` names an integer built from variables, hardware indices and constants alone."""
    if not isinstance(s, Decl) or not s.const or s.init is None:
        return False
    t = s.sym.type
    return isinstance(t, Scalar) and t.is_int and not any(isinstance(x, IMPURE) for x in walk_expr(s.init))


def _value(s: Decl) -> Expr:
    assert s.init is not None
    return s.init


def _inside(s: Stmt, f) -> Stmt:
    if isinstance(s, If):
        return dataclasses.replace(s, then=f(s.then), orelse=f(s.orelse))
    if isinstance(s, For | While):
        return dataclasses.replace(s, body=f(s.body))
    return s


__all__ = ["merge_guards", "reuse_indices", "tidy", "without_idle"]
