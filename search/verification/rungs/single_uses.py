"""Integers that one place uses, in that place: where a printed text passes an address to a function, it gets a name.

before                                              after
    let p_offset: i64 = row + (i + u * 4096)            out[row + (i + u * 4096) +: 8] = out_vec
    out[p_offset +: 8] = out_vec

What is read from memory is used by the very next statement, so that nothing writes in between.
"""

from __future__ import annotations

from collections import Counter

from ktc.ir.nodes import Assign, Body, Decl, Expr, Stmt, Store, Sym, Var
from ktc.ir.purity import acts, is_movable, is_removable
from ktc.ir.types import Scalar
from ktc.ir.walk import all_exprs, assigned, map_body, substitute, substitute_expr, used, walk, with_bodies


def used_once_in_place(body: Body) -> Body:
    """``body`` without variables that hold an integer for one use, before which nothing changes what it is made of:
    the use computes it."""
    uses = Counter(e.sym for e in all_exprs(body) if isinstance(e, Var))
    changed = assigned(body)
    once = {s.sym for s in walk(body) if isinstance(s, Decl) and uses[s.sym] == 1 and _is_integer(s)} - changed
    if not once:
        return body
    fixed: dict[Sym, Expr] = {}
    for s in walk(body):
        if isinstance(s, Decl) and s.sym in once and is_movable(s.init) and not used(s.init) & changed:  # type: ignore[arg-type]
            fixed[s.sym] = substitute_expr(s.init, fixed)  # type: ignore[arg-type]
    body = substitute(map_body(body, lambda s: None if isinstance(s, Decl) and s.sym in fixed else s), fixed)
    return _in_next(body, once - fixed.keys())


def _is_integer(s: Decl) -> bool:
    t = s.sym.type
    return isinstance(t, Scalar) and t.is_int and s.init is not None and s.init.type == t


def _in_next(body: Body, once: set[Sym]) -> Body:
    out: list[Stmt] = []
    for s in body:
        s = with_bodies(s, lambda b: _in_next(b, once))
        last = out[-1] if out else None
        if isinstance(last, Decl) and last.sym in once and isinstance(s, Assign | Decl | Store):
            exprs = list(all_exprs((s,)))
            here = any(isinstance(e, Var) and e.sym == last.sym for e in exprs)
            if here and last.init is not None and is_removable(last.init) and not any(map(acts, exprs)):
                (s,) = substitute((s,), {last.sym: last.init})
                out.pop()
        out.append(s)
    return tuple(out)


__all__ = ["used_once_in_place"]
