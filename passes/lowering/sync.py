"""Derived barriers: one between two statements iff an element written by one thread is touched by another.

Inside one block-level iteration, a loop's access is *owned* when the same distribution and the same index expression
(up to the name of the loop variable) reach it: then the same thread touches the element, and no barrier is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.nodes import (
    AddrOf,
    Atomic,
    Body,
    Dist,
    Eval,
    Expr,
    For,
    Knob,
    Load,
    Par,
    Reduce,
    Stmt,
    Store,
    Sym,
    Var,
    While,
    bodies,
)
from ktc.ir.types import Array, Ptr
from ktc.ir.walk import map_expr, stmt_exprs, walk, walk_expr

from .decide import strip
from .levels import is_mma

THREAD_LEVELS = ("thread", "lane", "warp")


@dataclass(frozen=True)
class Access:
    """One access seen from a statement list: who does it (``owner``: a key, or '*' everybody, '0' the first thread)."""

    buffer: Sym
    write: bool
    owner: object


def accesses(s: Stmt, axes: int, owner: tuple[Dist, ...] = (), env: dict[Sym, Expr] | None = None) -> list[Access]:
    """Accesses of shared and global memory by ``s``, with their owners; ``axes`` thread axes exist in the launch."""
    env = env or {}
    bound = sum(1 for dist in owner for lv in dist if lv.kind in THREAD_LEVELS)
    out: list[Access] = []

    def index_key(index: tuple[Expr, ...]) -> object:
        return tuple(map_expr(strip(i), lambda x: env.get(x.sym, x) if isinstance(x, Var) else x) for i in index)

    def who(index: tuple[Expr, ...], write: bool) -> object:
        if is_mma(s):
            return "*"  # lanes exchange operands
        if bound < axes:
            return ("0", owner) if write else "*"
        return (owner, index_key(index))

    values = {id(a.value) for a in s.accs} if isinstance(s, Reduce) else set()
    for e in stmt_exprs(s):
        if id(e) in values:
            continue  # evaluated by the iterations, below
        for x in walk_expr(e):
            if isinstance(x, Load) and _visible(x.buffer):
                out.append(Access(x.buffer, False, who(x.index, False)))
            elif isinstance(x, AddrOf) and _visible(x.buffer):
                out.append(Access(x.buffer, True, object()))
    if isinstance(s, Store) and _visible(s.buffer):
        out.append(Access(s.buffer, True, who(s.index, True)))
    if isinstance(s, Atomic) and _visible(s.buffer):
        out.append(Access(s.buffer, True, who(s.index, True)))
    inner_owner, inner_env = owner, env
    if isinstance(s, Par | Reduce) and _thread_key(s.dist):
        inner_owner = (*owner, _thread_key(s.dist))
        inner_env = {**env, s.var: _placeholder(len(env))}
    inside: list[Stmt] = [c for b in bodies(s) for c in b]
    inside += [Eval(a.value) for a in s.accs] if isinstance(s, Reduce) else []
    for c in inside:
        out += accesses(c, axes, inner_owner, inner_env)
    return out


def _visible(b: Sym) -> bool:
    return isinstance(b.type, Ptr) or (isinstance(b.type, Array) and b.type.space == "shared")


def _thread_key(dist: Dist) -> Dist:
    return dist if any(lv.kind in THREAD_LEVELS for lv in dist) else ()


def _placeholder(k: int) -> Expr:
    """A canonical variable standing for the k-th enclosing loop's index."""
    return Knob(f"#{k}")


def conflict(before: list[Access], after: list[Access]) -> bool:
    """Whether some element written on one side may be touched by another thread on the other side."""
    for a in before:
        for b in after:
            if a.buffer != b.buffer or not (a.write or b.write):
                continue
            if a.owner != b.owner or a.owner == "*":
                return True
    return False


def siblings_conflict(body: Body, axes: int) -> bool:
    """Whether two statements of ``body``, or of a statement list inside it, need a barrier between them."""
    seen: list[Access] = []
    for s in body:
        here = accesses(s, axes)
        if conflict(seen, here):
            return True
        seen += here
    for s in body:
        if isinstance(s, Par | Reduce):
            continue
        if isinstance(s, For | While) and carried_conflict(s.body, axes):
            return True
        if any(siblings_conflict(b, axes) for b in bodies(s)):
            return True
    return False


def carried_conflict(body: Body, axes: int) -> bool:
    """Whether a round of a loop over ``body`` may touch what another thread still reads or writes in the last one."""
    if not any(isinstance(s, Par | Reduce) for s in walk(body)):
        return False
    every = [a for s in body for a in accesses(s, axes)]
    return conflict(every, every)
