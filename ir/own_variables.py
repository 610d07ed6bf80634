"""Variables that are declared before they have a value, declared where they get it.

before                                          after
    var v: f32                                      for i in 0..n
    var at: i32                                       var v: f32 = x[i]
    for i in 0..n                                     s += v * v
      v = x[i]                                      if row < n
      s += v * v                                      var at: i32 = row * n
    if row < n                                        y[at] = s
      at = row * n                                    for j in 0..m
      y[at] = s                                         var v_1: f32 = y[j]
      for j in 0..m                                     t += v_1
        v = y[j]
        t += v

Declared at the top, as was once the custom, such a variable looks as if it went from one iteration to the next, and as
if its value were unknown. It does not where each statement that mentions it gives it a value first thing; where a
branch alone mentions it, it is a variable of the branch.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.nodes import Assign, Body, Decl, For, If, Stmt, Sym, fresh
from ktc.ir.purity import is_removable
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, commented, rename, used, used_in, walk, with_list_around


def with_own_variables(body: Body) -> Body:
    """``body`` with such variables declared where they get their value; the same object where there are none."""
    for decl in [s for s in walk(body) if isinstance(s, Decl) and isinstance(s.sym.type, Scalar)]:
        if decl.init is not None and not (is_removable(decl.init) and decl.sym in assigned(body)):
            continue

        def sunk(before: Body, behind: Body, decl: Decl = decl) -> Body | None:
            rest = _sunk(behind, decl.sym, decl.init is None)
            return None if rest is None else (*before, *commented(rest, decl.comments))

        body = with_list_around(body, decl, sunk) or body
    return body


def _sunk(body: Body, v: Sym, unset: bool = True) -> Body | None:
    """``body``, all that mentions ``v``, which is declared where it gets its values; None where one that it got in one
    of these statements may be read in another, or, unless it is ``unset`` before, the one that it has."""
    at = [k for k, s in enumerate(body) if _mentions(s, v)]
    if not at:
        return None
    k, first = at[0], body[at[0]]
    if isinstance(first, Assign) and _sets((first,), v):
        declared = Decl(v, first.value, loc=first.loc, comments=first.comments)
        return _own((*body[:k], declared, *body[k + 1 :]), v)
    if unset and len(at) == 1 and isinstance(first, If) and v not in used(first.cond):
        return (*body[:k], _in_branches(first, v), *body[k + 1 :])
    sunk = {k: _in_statement(body[k], v) for k in at}
    if any(s is None for s in sunk.values()):
        return None
    return tuple(sunk.get(k) or s for k, s in enumerate(body))


def _in_statement(s: Stmt, v: Sym) -> Stmt | None:
    """``s``, loop or branches that begin by giving ``v`` a value, with variables of their own; None if it is none."""
    match s:
        case For(init=init, cond=cond, step=step, body=body) if v not in used(init) | used(cond) | used(step):
            return dataclasses.replace(s, body=_in_list(body, v)) if _sets(body, v) else None
        case If(cond=cond, then=then, orelse=orelse) if v not in used(cond):
            apart = all(_sets(b, v) or not any(_mentions(x, v) for x in b) for b in (then, orelse))
            return _in_branches(s, v) if apart else None
    return None


def _in_branches(s: If, v: Sym) -> If:
    return dataclasses.replace(s, then=_in_list(s.then, v), orelse=_in_list(s.orelse, v))


def _in_list(body: Body, v: Sym) -> Body:
    """``body``, in which nothing reads a value that ``v`` had before, with a variable of its own."""
    at = next((k for k, s in enumerate(body) if _mentions(s, v)), None)
    if at is None:
        return body
    sunk = _sunk(body, v)
    return sunk if sunk is not None else _own((*body[:at], Decl(v, None), *body[at:]), v)


def _sets(body: Body, v: Sym) -> bool:
    """Whether ``body`` gives ``v`` a value before it reads it, in each of its branches."""
    first = next((x for x in body if _mentions(x, v)), None)
    if isinstance(first, If):
        return v not in used(first.cond) and _sets(first.then, v) and _sets(first.orelse, v)
    return isinstance(first, Assign) and first.sym == v and v not in used(first.value)


def _mentions(s: Stmt, v: Sym) -> bool:
    return v in used_in((s,)) or v in assigned((s,))


def _own(body: Body, v: Sym) -> Body:
    """``body``, with a variable of its own in place of ``v``."""
    return rename(body, {v: fresh(v.name, v.type)})


__all__ = ["with_own_variables"]
