"""Early returns above barriers become predicates, for languages where every thread must reach a barrier.

if (row >= n) return;            const bool active = !(row >= n);
s[t] = x[row];            ->     if (active) s[t] = x[row];
barrier();                       barrier();
y[row] = s[0];                   if (active) y[row] = s[0];
"""

from __future__ import annotations

import dataclasses

from ktc.ir.nodes import (
    Alloc,
    Assign,
    Barrier,
    Binary,
    Body,
    Decl,
    Expr,
    For,
    If,
    Return,
    Stmt,
    Sym,
    Unary,
    Var,
    While,
    fresh,
)
from ktc.ir.types import BOOL
from ktc.ir.walk import used_in, walk


def has_barrier(body: Body) -> bool:
    return any(isinstance(s, Barrier) for s in walk(body))


def predicate_returns(body: Body) -> Body:
    """``body`` without thread-dependent returns that some threads take before others reach a barrier."""
    for k, s in enumerate(body):
        rest = body[k + 1 :]
        if not (isinstance(s, If) and any(isinstance(x, Return) for x in walk((s,))) and has_barrier(rest)):
            continue
        if not (len(s.then) >= 1 and isinstance(s.then[-1], Return) and not s.orelse):
            continue
        active = fresh("active", BOOL)
        head: list[Stmt] = [Decl(active, _negated(s.cond), const=True, loc=s.loc, comments=s.comments)]
        if len(s.then) > 1:
            head.append(If(Unary("!", Var(active)), s.then[:-1], loc=s.loc))
        return (*body[:k], *head, *_guarded(predicate_returns(rest), active))
    return body


def stray_return(body: Body) -> Stmt | None:
    """A return that a barrier may follow and that no predicate replaced."""
    for k, s in enumerate(body):
        if any(isinstance(x, Return) for x in walk((s,))) and (has_barrier(body[k + 1 :]) or has_barrier((s,))):
            return s
    return None


def _negated(cond: Expr) -> Expr:
    flipped = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
    if isinstance(cond, Binary) and cond.op in flipped and not getattr(cond.a.type, "is_float", True):
        return Binary(flipped[cond.op], cond.a, cond.b)
    return Unary("!", cond)


def _guarded(body: Body, active: Sym) -> Body:
    """Every barrier-free run of statements under ``if (active)``; declarations that outlive a run are split from it."""
    out: list[Stmt] = []
    run: list[Stmt] = []

    def flush(later: Body) -> None:
        if run:
            live = used_in(later)
            split = [s for s in run if isinstance(s, Decl) and (s.sym in live or s.init is None)]
            out.extend(dataclasses.replace(s, init=None, const=False) for s in split)
            moved = {s.sym for s in split}
            inner = tuple(
                Assign(s.sym, s.init, loc=s.loc, comments=s.comments)
                if isinstance(s, Decl) and s.sym in moved and s.init is not None
                else s
                for s in run
                if not (isinstance(s, Decl) and s.sym in moved and s.init is None)
            )
            if inner:
                out.append(If(Var(active), inner))
            run.clear()

    for k, s in enumerate(body):
        later = body[k + 1 :]
        if isinstance(s, Alloc | Barrier):
            flush((s, *later))
            out.append(s)
        elif has_barrier((s,)):
            flush((s, *later))
            if isinstance(s, If):
                s = dataclasses.replace(s, then=_guarded(s.then, active), orelse=_guarded(s.orelse, active))
            elif isinstance(s, For | While):
                s = dataclasses.replace(s, body=_guarded(s.body, active))
            out.append(s)
        else:
            run.append(s)
    flush(())
    return tuple(out)
