"""Make control flow explicit before barriers are split: warp operations alone, exits as flags.

Both rewrites are from IR to IR and keep its meaning for every thread:

* a warp operation inside an expression becomes a declaration of its own in front of the statement, so that "store the
  lane's value; everyone arrives; read another lane's" can be printed around it;
* ``return``, and ``break``/``continue`` out of a loop that synchronises, become a per-thread flag, and what follows
  runs under ``if (flag)``: every thread then reaches every barrier, some with nothing to do.
"""

from __future__ import annotations

import dataclasses
from functools import reduce
from typing import Any

from ktc.ir.nodes import (
    Assign,
    Barrier,
    Binary,
    Body,
    Break,
    Const,
    Continue,
    Decl,
    Expr,
    For,
    If,
    Return,
    Stmt,
    Sym,
    Unary,
    Var,
    WarpOp,
    While,
    bodies,
    fresh,
)  # fmt: skip
from ktc.ir.types import BOOL
from ktc.ir.walk import map_expr, map_stmt_exprs, stmt_exprs, walk, walk_expr, with_bodies

from .numba_types import unsupported

TRUE, FALSE = Const(True, BOOL), Const(False, BOOL)


def synchronises(s: Stmt) -> bool:
    """Whether ``s`` contains a barrier or a warp operation."""
    return any(isinstance(x, Barrier) or has_warp_op(x) for x in walk((s,)))


def has_warp_op(s: Stmt) -> bool:
    return any(isinstance(x, WarpOp) for e in stmt_exprs(s) for x in walk_expr(e))


def _has(s: Stmt, kinds: type | tuple[type, ...]) -> bool:
    return any(isinstance(x, kinds) for x in walk((s,)))


# ------------------------------------------------------------------------------------------------------ warp operations


def isolate_warp_ops(body: Body) -> Body:
    """Every warp operation as the whole initialiser of a declaration (or the whole value of an assignment)."""
    out: list[Stmt] = []
    for s in body:
        out.extend(_isolate(s))
    return tuple(out)


def _isolate(s: Stmt) -> list[Stmt]:
    s = with_bodies(s, isolate_warp_ops)
    if not has_warp_op(s):
        return [s]
    if isinstance(s, For):
        raise unsupported("a warp operation in the head of a for loop", s.loc)
    if isinstance(s, While):
        return _isolate_while(s)
    before: list[Stmt] = []

    def pull(e: Expr) -> Expr:
        if not isinstance(e, WarpOp):
            return e
        tmp = fresh(e.kind, e.type)
        before.append(Decl(tmp, e, loc=s.loc))
        return Var(tmp)

    direct = s.init if isinstance(s, Decl) else s.value if isinstance(s, Assign) else None
    last: Stmt
    if isinstance(direct, WarpOp):
        kept: dict[str, Any] = {
            f: map_expr(v, pull) for f in ("value", "arg", "width", "mask") if (v := getattr(direct, f)) is not None
        }
        whole: dict[str, Any] = {"init" if isinstance(s, Decl) else "value": dataclasses.replace(direct, **kept)}
        last = dataclasses.replace(s, **whole)
    else:
        last = map_stmt_exprs(s, pull)
    return [*before, last]


def _isolate_while(s: While) -> list[Stmt]:
    cond = fresh("cond", BOOL)
    again = tuple(_isolate(Assign(cond, s.cond, loc=s.loc)))
    first: list[Stmt] = [Decl(cond, TRUE), *([] if s.post else again)]
    return [*first, dataclasses.replace(s, cond=Var(cond), body=(*s.body, *again))]


# --------------------------------------------------------------------------------------------------------------- exits


@dataclasses.dataclass(frozen=True)
class _Loop:
    """The innermost loop: ``native`` loops keep their own break and continue."""

    native: bool
    stay: Sym | None = None  # false after break
    more: Sym | None = None  # false after continue, until the next iteration


def flags_for_exits(body: Body) -> Body:
    """``body`` without ``return``, and without ``break``/``continue`` of synchronising loops."""
    alive = fresh("alive", BOOL)
    if not any(_has(s, Return) for s in body):
        return _Exits(None).rewrite(body, None)[0]
    return (Decl(alive, TRUE), *_Exits(alive).rewrite(body, None)[0])


class _Exits:
    def __init__(self, alive: Sym | None) -> None:
        self.alive = alive

    def rewrite(self, body: Body, loop: _Loop | None) -> tuple[Body, set[Sym]]:
        """The new body and the flags that it may clear."""
        for i, s in enumerate(body):
            new, cleared = self._stmt(s, loop)
            if isinstance(s, Return | Break | Continue):
                return (*body[:i], *new), cleared
            if not cleared and len(new) == 1 and new[0] is s:
                continue
            rest, more = self.rewrite(body[i + 1 :], loop)
            if cleared and rest and not (loop and loop.native and isinstance(s, If)):
                if loop and loop.native:
                    rest = (If(Unary("!", all_of(cleared)), (Break(),)), *rest)
                else:
                    rest = (If(all_of(cleared), rest),)
            elif cleared and loop and loop.native and not isinstance(s, If):
                rest = (If(Unary("!", all_of(cleared)), (Break(),)),)
            return (*body[:i], *new, *rest), cleared | more
        return body, set()

    def _stmt(self, s: Stmt, loop: _Loop | None) -> tuple[Body, set[Sym]]:
        if isinstance(s, Return):
            assert self.alive is not None
            leave: Body = (Break(),) if loop and loop.native else ()
            return (Assign(self.alive, FALSE), *leave), {self.alive}
        if isinstance(s, Break | Continue):
            if loop is None or loop.native:
                return (s,), set()
            flag = loop.stay if isinstance(s, Break) else loop.more
            assert flag is not None
            return (Assign(flag, FALSE),), {flag}
        if isinstance(s, If):
            then, a = self.rewrite(s.then, loop)
            orelse, b = self.rewrite(s.orelse, loop)
            return (dataclasses.replace(s, then=then, orelse=orelse),) if (a | b) else (s,), a | b
        if isinstance(s, For | While):
            return self._loop(s, loop)
        return (s,), set()

    def _loop(self, s: For | While, outer: _Loop | None) -> tuple[Body, set[Sym]]:
        if not synchronises(s):
            body, cleared = self.rewrite(s.body, _Loop(native=True))
            return (dataclasses.replace(s, body=body),) if cleared else (s,), cleared
        here = [x for x in _own(s.body) if isinstance(x, Break | Continue)]
        stay = fresh("stay", BOOL) if any(isinstance(x, Break) for x in here) else None
        more = fresh("more", BOOL) if any(isinstance(x, Continue) for x in here) else None
        body, cleared = self.rewrite(s.body, _Loop(False, stay, more))
        if more is not None:
            body = (Decl(more, TRUE), *body)
        outside = cleared - {stay, more}
        guards = ({stay} if stay else set()) | outside
        if body is s.body and not guards:
            return (s,), set()
        cond = Binary("&&", all_of(guards), s.cond) if guards else s.cond
        new = dataclasses.replace(s, cond=cond, body=body)
        return (*((Decl(stay, TRUE),) if stay else ()), new), outside


def _own(body: Body):
    """Statements of ``body`` that are not inside a nested loop."""
    for s in body:
        yield s
        if not isinstance(s, For | While):
            for b in bodies(s):
                yield from _own(b)


def all_of(flags: set[Sym]) -> Expr:
    """The conjunction of ``flags``, in a fixed order."""
    ordered: list[Expr] = [Var(f) for f in sorted(flags, key=lambda f: f.id)]
    return reduce(lambda a, b: Binary("&&", a, b), ordered)
