"""Derived barriers: one between two statements iff an element written by one thread is touched by another.

Inside one block-level iteration, a loop's access is *owned* when the same distribution and the same index expression
(up to the name of the loop variable) reach it: then the same thread touches the element, and no barrier is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ktc.ir.analysis.polynomial import polynomial
from ktc.ir.fold import is_const
from ktc.ir.nodes import (
    AddrOf,
    AsyncCopy,
    AsyncWait,
    Atomic,
    Binary,
    Body,
    Dist,
    Eval,
    Expr,
    For,
    Knob,
    Load,
    Par,
    Produce,
    Reduce,
    Stmt,
    Store,
    Sym,
    Var,
    While,
    bodies,
    i32,
)  # fmt: skip
from ktc.ir.storage import is_visible
from ktc.ir.walk import assigned, declared, map_expr, stmt_exprs, used, walk, walk_expr

from .decide import strip
from .levels import is_mma

THREAD_LEVELS = ("thread", "lane", "warp")


@dataclass(frozen=True)
class Spread:
    """A loop over threads, as far as it decides who runs what (its end only where a level takes the rest)."""

    dist: Dist
    lo: Expr
    hi: Expr | None


@dataclass(frozen=True)
class Access:
    """One access seen from a statement list: who does it (``owner``: a key, or '*' everybody, '0' the first thread)."""

    buffer: Sym
    write: bool
    owner: object
    slot: Expr | None = None  # the first index, where it is a number or ``e % n``, with one value for the statement
    in_flight: bool = False  # an asynchronous copy that nobody has waited for: a barrier does not complete it


def accesses(s: Stmt, axes: int, around: Body = ()) -> list[Access]:
    """Accesses of shared and global memory by ``s``, with their owners; ``axes`` thread axes exist in the launch.

    ``around`` is the list that ``s`` stands in, whose assignments may change what its expressions mean.
    """
    out = _accesses(s, axes, (), {}, set(declared((s,))) | assigned((s,)) | assigned(around))
    return landed(out) if any(isinstance(x, AsyncWait) for x in walk((s,))) else out


def landed(found: list[Access]) -> list[Access]:
    """``found`` after the thread has waited for its copies."""
    return [replace(a, in_flight=False) for a in found]


def _accesses(s: Stmt, axes: int, owner: tuple[Spread, ...], env: dict[Sym, Expr], changing: set[Sym]) -> list[Access]:
    """``owner``: the loops over threads around ``s``; ``env``: their indices; ``changing``: what has several values."""
    bound = sum(1 for spread in owner for lv in spread.dist if lv.kind in THREAD_LEVELS)
    out: list[Access] = []

    def index_key(index: tuple[Expr, ...]) -> object:
        return tuple(map_expr(strip(i), lambda x: env.get(x.sym, x) if isinstance(x, Var) else x) for i in index)

    def who(index: tuple[Expr, ...], write: bool) -> object:
        if is_mma(s):
            return "*"  # lanes exchange operands
        if bound < axes:
            return ("0", owner) if write else "*"
        return (owner, index_key(index))

    def slot(index: tuple[Expr, ...]) -> Expr | None:
        first = strip(index[0])
        told = is_const(first) or (isinstance(first, Binary) and first.op == "%" and not used(first) & changing)
        return first if told and len(index) > 1 else None

    values = {id(a.value) for a in s.accs} if isinstance(s, Reduce) else set()
    for e in stmt_exprs(s):
        if id(e) in values:
            continue  # evaluated by the iterations, below
        for x in walk_expr(e):
            if isinstance(x, Load) and is_visible(x.buffer):
                out.append(Access(x.buffer, False, who(x.index, False), slot(x.index)))
            elif isinstance(x, AddrOf) and is_visible(x.buffer):
                out.append(Access(x.buffer, True, object()))
    if isinstance(s, Store) and is_visible(s.buffer):
        out.append(Access(s.buffer, True, who(s.index, True), slot(s.index)))
    if isinstance(s, AsyncCopy):
        out.append(Access(s.dst, True, who(s.dst_index, True), slot(s.dst_index), in_flight=True))
        out.append(Access(s.src, False, who(s.src_index, False)))
    if isinstance(s, Atomic) and is_visible(s.buffer):
        out.append(Access(s.buffer, True, who(s.index, True)))
    inner_owner, inner_env = owner, env
    if isinstance(s, Par | Reduce) and any(lv.kind in THREAD_LEVELS for lv in s.dist):
        inner_owner = (*owner, Spread(s.dist, s.lo, s.hi if any(lv.n is None for lv in s.dist) else None))
        inner_env = {**env, s.var: _placeholder(len(env))}
    inside: list[Stmt] = [] if isinstance(s, Produce) else [c for b in bodies(s) for c in b]
    inside += [Eval(a.value) for a in s.accs] if isinstance(s, Reduce) else []
    for c in inside:
        out += _accesses(c, axes, inner_owner, inner_env, changing)
    return out


def _placeholder(k: int) -> Expr:
    """A canonical variable standing for the k-th enclosing loop's index."""
    return Knob(f"#{k}")


def conflict(before: list[Access], after: list[Access], *, at_once: bool = False) -> bool:
    """Whether some element written on one side may be touched by another thread on the other side.

    ``at_once``: both sides belong to one round of the loops around them, so that equal expressions have equal values
    and buffers of a pipeline can be told apart.
    """
    for a in before:
        for b in after:
            if a.buffer != b.buffer or not (a.write or b.write):
                continue
            if (a.owner != b.owner or a.owner == "*") and not (at_once and apart(a.slot, b.slot)):
                return True
    return False


def apart(a: Expr | None, b: Expr | None) -> bool:
    """Whether two numbers, or ``x % n`` and ``y % n``, differ: ``n`` does not divide ``x - y``, or it is ``n - 1``.

    (``n - 1`` for an open ``n``: one less than a pipeline's stages, of which there are two at least.)
    """
    if is_const(a) and is_const(b):  # type: ignore[arg-type]
        return a != b
    if not (isinstance(a, Binary) and isinstance(b, Binary)) or a.b != b.b:
        return False
    n = polynomial(a.b)
    for x, y in ((a.a, b.a), (b.a, a.a)):
        d = polynomial(Binary("-", x, y))
        if set(d) <= {()} and set(n) == {()}:
            return d.get((), 0) % n[()] != 0
        if d == polynomial(Binary("-", a.b, i32(1))):
            return True
    return False


def siblings_conflict(body: Body, axes: int) -> bool:
    """Whether two statements of ``body``, or of a statement list inside it, need a barrier between them."""
    seen: list[Access] = []
    for s in body:
        here = accesses(s, axes, body)
        if conflict(seen, here, at_once=True):
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
