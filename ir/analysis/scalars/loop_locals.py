"""Variables that each iteration of a loop makes anew, declared in the loop; those of a branch, in the branch.

before                                 after
    var v: f32 = -1e+30                    for i in tid..n step 256
    for i in tid..n step 256                 var v: f32 = x[i]
      v = x[i]                               m = max(m, v)
      m = max(m, v)                        ...
    ...                                    for i in tid..n step 256
    for i in tid..n step 256                 var v: f32 = exp(x[i] - m)
      v = exp(x[i] - m)                      s += v
      s += v

What outlives an iteration is something that threads carry from one part of a kernel to the next; this is nothing. So is
a private array that one store fills as a whole: a vector that each iteration loads, or a branch of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from ktc.ir.fold import evaluate, is_const
from ktc.ir.nodes import (
    AddrOf,
    Alloc,
    Assign,
    Body,
    Break,
    Continue,
    Decl,
    Expr,
    For,
    If,
    Load,
    Raw,
    Stmt,
    Store,
    Sym,
    While,
    bodies,
    fresh,
)
from ktc.ir.storage import is_local_array
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import all_exprs, assigned, declared, mentions, rename, stmt_exprs, used, used_in, walk, walk_expr

from .liveness import live_before, live_in


def with_loop_locals(body: Body) -> Body:
    """``body`` with these variables in their loops and branches."""
    arrays = {s.sym: s for s in walk(body) if isinstance(s, Alloc) and is_local_array(s.sym)}
    jumps = any(isinstance(s, Break | Continue) for s in walk(body))
    pointed = frozenset(v for e in all_exprs(body) if isinstance(e, AddrOf | Raw) for v in used(e))
    return _InLoops(arrays, jumps).list_(body, (), pointed)


@dataclasses.dataclass(frozen=True)
class _InLoops:
    """``arrays``: the declarations of private arrays; ``jumps``: whether some loop is left, or an iteration, before its
    end: what would be written first may be passed by then."""

    arrays: Mapping[Sym, Alloc]
    jumps: bool

    def list_(self, body: Body, after: Body, live: frozenset[Sym]) -> Body:
        """``body``, which ``after`` follows, one way or another; ``live``: scalars that are read behind ``body``."""
        out: list[Stmt] = []
        for k, s in enumerate(body):
            rest = (*body[k + 1 :], *after)
            behind = live | used_in(body[k + 1 :]) if self.jumps else live_before(body[k + 1 :], live)
            if isinstance(s, If):
                sides = (_own(self.list_(side, rest, behind), behind) for side in (s.then, s.orelse))
                then, orelse = (self._vectors(side, rest) for side in sides)
                s = dataclasses.replace(s, then=then, orelse=orelse)
            elif isinstance(s, For | While):
                ends: tuple[Expr, ...] = (s.cond, s.step) if isinstance(s, For) else (s.cond,)
                around = {x for e in ends for x in used(e)} | ({s.var} if isinstance(s, For) else set())
                again = behind | around | (used_in(s.body) if self.jumps else live_before(s.body, behind))
                inner = _own(self.list_(s.body, (*s.body, *rest), again), again)
                s = dataclasses.replace(s, body=self._vectors(inner, rest))
            out.append(s)
        return tuple(out)

    def _vectors(self, body: Body, rest: Body) -> Body:
        """The body of a loop or a branch, which ``rest`` follows, with arrays that it fills anew."""
        mine = (b for b in assigned(body) - set(declared(body)) if b in self.arrays)
        for b in sorted(mine, key=lambda b: b.id):
            if _fills(body, b) and not _goes_on(rest, b):
                own = dataclasses.replace(self.arrays[b], sym=fresh(b.name, b.type))
                body = (own, *rename(body, {b: own.sym}))
        return body


def _fills(body: Body, b: Sym) -> bool:
    """Whether ``body`` first of all stores to all of ``b``, a vector."""
    s = next(s for s in body if b in mentions(s))
    if not isinstance(s, Store) or s.buffer != b or not isinstance(b.type, Array):
        return False
    if any(isinstance(e, Load) and e.buffer == b for e in all_exprs((s,))):
        return False
    sizes = [evaluate(n, {}) for n in b.type.shape]
    return len(sizes) == 1 and s.width == sizes[0] and is_const(s.index[0], 0)


def _goes_on(rest: Body, b: Sym) -> bool:
    """Whether ``rest`` may read what ``b`` holds before it."""
    for k, s in enumerate(rest):
        if b not in mentions(s):
            continue
        if _fills(rest[k:], b):
            return False
        inside = [part for part in bodies(s) if b in assigned(part) | used_in(part)]
        if any(isinstance(e, Load) and e.buffer == b for x in stmt_exprs(s) for e in walk_expr(x)) or not inside:
            return True
        if not all(_fills(part, b) for part in inside):
            return True
    return False


def _own(body: Body, live: Collection[Sym]) -> Body:
    """``body`` with variables of its own in place of those that it gives a value before it reads them, and that are not
    ``live`` behind it."""
    mine = {v for v in assigned(body) - set(declared(body)) if isinstance(v.type, Scalar)} - set(live)
    mine -= set(live_in(body)) if mine else set()
    for v in sorted(mine, key=lambda v: v.id):
        own = fresh(v.name, v.type)
        body = _declared(rename(body, {v: own}), own)
    return body


def _declared(body: Body, v: Sym) -> Body:
    """``body`` with a declaration of ``v`` where it first gets a value."""
    at = next((k for k, s in enumerate(body) if v in mentions(s)), 0)
    first = body[at]
    if isinstance(first, Assign) and first.sym == v:
        return (*body[:at], Decl(v, first.value, loc=first.loc, comments=first.comments), *body[at + 1 :])
    return (*body[:at], Decl(v, None), *body[at:])


__all__ = ["with_loop_locals"]
