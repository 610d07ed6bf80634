"""Variables that each iteration of a loop makes anew, declared in the loop.

before                                 after
    var v: f32 = -1e+30                    for i in tid..n step 256
    for i in tid..n step 256                 var v: f32 = x[i]
      v = x[i]                               m = max(m, v)
      m = max(m, v)                        ...
    ...                                    for i in tid..n step 256
    for i in tid..n step 256                 var v: f32 = exp(x[i] - m)
      v = exp(x[i] - m)                      s += v
      s += v

What outlives an iteration is something that threads carry from one part of a kernel to the next; this is nothing.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.nodes import Assign, Body, Decl, Expr, For, If, Stmt, Sym, While, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, declared, rename, used, used_in
from ktc.passes.raising.recognise.exchange_regions import live_in


def with_loop_locals(body: Body, after: Body = ()) -> Body:
    """``body``, which ``after`` follows, with these variables in their loops."""
    out: list[Stmt] = []
    for k, s in enumerate(body):
        rest = (*body[k + 1 :], *after)
        if isinstance(s, If):
            s = dataclasses.replace(s, then=with_loop_locals(s.then, rest), orelse=with_loop_locals(s.orelse, rest))
        elif isinstance(s, For | While):
            s = dataclasses.replace(s, body=with_loop_locals(s.body, (*s.body, *rest)))
            s = dataclasses.replace(s, body=_local(s, rest))
        out.append(s)
    return tuple(out)


def _local(loop: For | While, rest: Body) -> Body:
    """The body of ``loop``, which ``rest`` follows."""
    body = loop.body
    mine = {v for v in assigned(body) - set(declared(body)) if isinstance(v.type, Scalar)}
    ends: tuple[Expr, ...] = (loop.cond, loop.step) if isinstance(loop, For) else (loop.cond,)
    mine -= {x for e in ends for x in used(e)} | ({loop.var} if isinstance(loop, For) else set())
    mine -= set(live_in(body)) | (set(live_in(rest)) if mine else set())
    for v in sorted(mine, key=lambda v: v.id):
        own = fresh(v.name, v.type)
        body = _declared(rename(body, {v: own}), own)
    return body


def _declared(body: Body, v: Sym) -> Body:
    """``body`` with a declaration of ``v`` where it first gets a value."""
    at = next((k for k, s in enumerate(body) if v in assigned((s,)) | used_in((s,))), 0)
    first = body[at]
    if isinstance(first, Assign) and first.sym == v:
        return (*body[:at], Decl(v, first.value, loc=first.loc, comments=first.comments), *body[at + 1 :])
    return (*body[:at], Decl(v, None), *body[at:])


__all__ = ["with_loop_locals"]
