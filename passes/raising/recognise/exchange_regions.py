"""Which statements exchange values between threads, and what a region of them reads from before it."""

from __future__ import annotations

from ktc.ir.analysis.scalars.liveness import live_in
from ktc.ir.nodes import (
    Atomic,
    Barrier,
    Body,
    Break,
    Const,
    Continue,
    Decl,
    Load,
    Return,
    Stmt,
    Store,
    Var,
)
from ktc.ir.storage import is_shared
from ktc.ir.support.memo import by_identity
from ktc.ir.walk import assigned, stmt_exprs, used, walk, walk_expr

from .statement_kinds import has_warp_op


@by_identity(4096)
def communicates(s: Stmt) -> bool:
    """Whether ``s`` can carry a value from one thread to another."""
    if any(isinstance(x, Barrier) for x in walk((s,))) or has_warp_op(s):
        return True
    return any(isinstance(x, Atomic) and is_shared(x.buffer) for x in walk((s,)))


@by_identity(4096)
def exchanges(s: Stmt) -> bool:
    if communicates(s):
        return True
    return any(isinstance(x, Store) and is_shared(x.buffer) for x in walk((s,)))


@by_identity(4096)
def moves_only(s: Stmt) -> bool:
    """Whether ``s`` touches registers and shared memory only and goes on to the next statement."""
    for x in walk((s,)):
        if isinstance(x, Store | Atomic) and getattr(x.buffer.type, "space", "local") not in ("shared", "local"):
            return False
        if isinstance(x, Return) or (isinstance(x, Break | Continue) and x is s):
            return False
        for e in stmt_exprs(x):
            for y in walk_expr(e):
                if isinstance(y, Load) and getattr(y.buffer.type, "space", "local") not in ("shared", "local"):
                    return False
    return True


def copies(before: Body, region: Body) -> Body:
    """Declarations before ``region`` that give a variable of it a constant, or the value of another variable."""
    needed = set(live_in(region))
    out: list[Stmt] = []
    for k, d in reversed(list(enumerate(before))):
        if not (isinstance(d, Decl) and d.sym in needed and isinstance(d.init, Const | Var)):
            continue
        if not (used(d.init) | {d.sym}) & assigned(before[k + 1 :]):
            out.append(d)
            needed |= used(d.init)
    return tuple(reversed(out))


__all__ = ["communicates", "copies", "exchanges", "moves_only"]
