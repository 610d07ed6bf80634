"""Early returns above barriers become predicates, for languages where every thread must reach a barrier.

if (row >= n) return;            const bool active = !(row >= n);
s[t] = x[row];            ->     if (active) s[t] = x[row];
barrier();                       barrier();
y[row] = s[0];                   if (active) y[row] = s[0];
"""

from __future__ import annotations

import dataclasses

from ktc.ir.analysis.uniformity import Uniformity
from ktc.ir.nodes import (
    NEGATED,
    Alloc,
    Assign,
    Barrier,
    Binary,
    Body,
    Decl,
    Expr,
    For,
    If,
    Load,
    Return,
    Stmt,
    Sym,
    Unary,
    Var,
    WarpOp,
    While,
    fresh,
)
from ktc.ir.types import BOOL
from ktc.ir.walk import assigned, used, used_in, walk, walk_expr


def has_barrier(body: Body) -> bool:
    return any(isinstance(s, Barrier) for s in walk(body))


class Unsuited(Exception):
    """Control flow around a barrier that threads which returned could not follow; ``args[0]`` is the statement."""


def predicate_returns(body: Body, facts: Uniformity, inside: bool = False) -> Body:
    """``body`` without thread-dependent returns that some threads take before others reach a barrier.

    Where whole blocks return together they still do. Threads that have returned follow the control flow around later
    barriers, so they compute what decides it: it must be uniform, and read no memory, because in a block that all
    threads left nobody may read it. ``inside``: a predicate holds already.

    Raises:
        Unsuited: what decides about a barrier is something else.
    """
    for k, s in enumerate(body):
        rest = body[k + 1 :]
        if not (isinstance(s, If) and any(isinstance(x, Return) for x in walk((s,))) and has_barrier(rest)):
            continue
        if not inside and facts.is_uniform(s.cond) and not _strays(s, facts):
            continue
        if not (len(s.then) >= 1 and isinstance(s.then[-1], Return) and not s.orelse):
            continue
        active = fresh("active", BOOL)
        head: list[Stmt] = [Decl(active, _negated(s.cond), const=True, loc=s.loc, comments=s.comments)]
        if len(s.then) > 1:
            head.append(If(Unary("!", Var(active)), s.then[:-1], loc=s.loc))
        deciding = _Deciding(rest, facts).symbols
        rest = predicate_returns(rest, facts, inside=True)
        return (*body[:k], *head, *_guarded(rest, active, deciding))
    return body


def stray_return(body: Body, facts: Uniformity) -> Stmt | None:
    """A return that some threads may take, that a barrier may follow, and that no predicate replaced."""
    for k, s in enumerate(body):
        if _strays(s, facts) and (has_barrier(body[k + 1 :]) or has_barrier((s,))):
            return s
    return None


def _strays(s: Stmt, facts: Uniformity) -> bool:
    return any(isinstance(x, Return) and facts.is_divergent(x) for x in walk((s,)))


class _Deciding:
    """``symbols``: what control flow around the barriers of ``body`` depends on."""

    def __init__(self, body: Body, facts: Uniformity) -> None:
        self.symbols: set[Sym] = set()
        self._facts = facts
        self._defined: dict[Sym, list[Expr]] = {}
        for s in walk(body):
            if isinstance(s, Assign) or (isinstance(s, Decl) and s.init is not None):
                self._defined.setdefault(s.sym, []).append(s.value if isinstance(s, Assign) else s.init)  # type: ignore[arg-type]
        for s in walk(body):
            if isinstance(s, If | For | While) and has_barrier((s,)):
                heads = (s.init, s.cond, s.step) if isinstance(s, For) else (s.cond,)
                for e in heads:
                    self._need(e, s)

    def _need(self, e: Expr, at: Stmt) -> None:
        if not self._facts.is_uniform(e) or any(isinstance(x, Load | WarpOp) for x in walk_expr(e)):
            raise Unsuited(at)
        for sym in used(e) - self.symbols:
            if sym in self._defined:
                self.symbols.add(sym)
                for value in self._defined[sym]:
                    self._need(value, at)


def _negated(cond: Expr) -> Expr:
    if isinstance(cond, Binary) and cond.op in NEGATED and not getattr(cond.a.type, "is_float", True):
        return Binary(NEGATED[cond.op], cond.a, cond.b)
    return Unary("!", cond)


def _guarded(body: Body, active: Sym, deciding: set[Sym]) -> Body:
    """Every barrier-free run of statements under ``if (active)``; declarations that outlive a run are split from it.

    What decides about barriers (``deciding``) is computed by all threads.
    """
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
                s = dataclasses.replace(s, then=_guarded(s.then, active, deciding),
                                        orelse=_guarded(s.orelse, active, deciding))  # fmt: skip
            elif isinstance(s, For | While):
                s = dataclasses.replace(s, body=_guarded(s.body, active, deciding))
            out.append(s)
        elif isinstance(s, Decl | Assign) and s.sym in deciding:
            flush((s, *later))
            out.append(s)
        elif assigned((s,)) & deciding:
            raise Unsuited(s)
        else:
            run.append(s)
    flush(())
    return tuple(out)
