"""Where lowering is: which jams, guards and thread axes are in force."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass

from ktc.ir.fold import both, cast, fold_node, i32
from ktc.ir.nodes import (
    Barrier,
    Binary,
    Body,
    Expr,
    For,
    HwIndex,
    If,
    Par,
    Reduce,
    Stmt,
    Sym,
    Var,
    WarpOp,
    fresh,
)  # fmt: skip
from ktc.ir.support.memo import by_identity
from ktc.ir.types import I32
from ktc.ir.walk import refresh, rename, stmt_exprs, substitute_expr, used, walk, walk_expr
from ktc.passes.shared.mma import is_mma

from .levels import Jam


@dataclass(frozen=True)
class Guard:
    """A condition that iterations in force must satisfy, over base variables and the jam variables ``jams``."""

    cond: Expr
    jams: frozenset[Sym]


@dataclass(frozen=True)
class Scope:
    """The context of a statement list in parallel form.

    ``guards`` are conditions not yet applied, because a barrier or shuffle below must be reached by every thread;
    ``axes`` the thread axes that enclosing loops distribute over, ``blocks`` the axes of blocks; ``repeats`` whether a
    kept loop encloses us (so that shared slots are reused).
    """

    jams: tuple[Jam, ...] = ()
    guards: tuple[Guard, ...] = ()
    axes: frozenset[str] = frozenset()
    blocks: frozenset[str] = frozenset()
    in_par: bool = False
    repeats: bool = False

    def inside(self, **changes: object) -> Scope:
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]

    def ordered(self, dims: frozenset[Sym]) -> tuple[Jam, ...]:
        """The jams with variables in ``dims``: unrolled ones outside, vector lanes innermost."""
        return tuple(sorted((j for j in self.jams if j.var in dims), key=lambda j: j.kind == "vec"))


def guard_of(guards: tuple[Guard, ...], within: frozenset[Sym], beyond: frozenset[Sym] | None = None) -> Expr | None:
    """Conjunction of the guards decidable once the jams ``within`` are fixed (and not already with ``beyond``)."""
    out: Expr | None = None
    for g in guards:
        if g.jams <= within and not (beyond is not None and g.jams <= beyond):
            out = both(out, g.cond)
    return out


def nest(dims: tuple[Jam, ...], guards: tuple[Guard, ...], inner: Body) -> Body:
    """``inner`` inside unrolled loops over ``dims`` (outermost first), each guard as far out as it can be decided.

    Loop variables are renamed so that every nest has its own. Where a jam is *cut*, a nest without its guards comes
    first, for the rounds that are whole: a guard that holds for the last iteration (``base + u < end``) holds for all.
    """
    cut = {j.var: fold_node(Binary("-", cast(j.extent, I32), i32(1))) for j in dims if j.cut}
    settled = tuple(g for g in guards if g.jams & cut.keys() and g.jams <= {j.var for j in dims})
    whole: Expr | None = None
    for g in settled:
        whole = both(whole, substitute_expr(g.cond, cut))
    if whole is not None and not used(whole) & {j.var for j in dims}:
        plain = tuple(dataclasses.replace(j, cut=False) for j in dims)
        rest = tuple(g for g in guards if g not in settled)
        return (If(whole, nest(plain, rest, inner), nest(plain, guards, refresh(inner))),)
    body = inner
    for k in range(len(dims), -1, -1):
        here = frozenset(j.var for j in dims[:k])
        outer = frozenset(j.var for j in dims[: k - 1]) if k else None
        cond = guard_of(guards, here, outer)
        if cond is not None:
            body = (If(cond, body),)
        if k:
            body = (unrolled(dims[k - 1].var, dims[k - 1].extent, body),)
    return body


def unrolled(var: Sym, extent: Expr, body: Body) -> For:
    """``#pragma unroll for (var = 0; var < extent; ++var)`` over a fresh copy of ``var``."""
    v = fresh(var.name, var.type)
    return For(
        v, i32(0), Binary("<", Var(v), cast(extent, I32)), Binary("+", Var(v), i32(1)), rename(body, {var: v}), unroll=0
    )


def is_convergent(body: Body) -> bool:
    """Whether some statement of ``body`` must be reached by all threads of a block or warp together."""
    return any(map(_meets_others, walk(body)))


@by_identity(4096)
def _meets_others(s: Stmt) -> bool:
    """Whether ``s`` itself must be reached by all threads of a block or warp together."""
    if isinstance(s, Barrier) or is_mma(s):
        return True
    if isinstance(s, Reduce) and any(lv.kind in ("thread", "lane", "warp", "block") for lv in s.dist):
        return True
    return any(isinstance(x, WarpOp) for e in stmt_exprs(s) for x in walk_expr(e))


def has_parallel(s: Stmt) -> bool:
    return any(isinstance(x, Par | Reduce) for x in walk((s,)))


def first_thread(axes: Collection[str], level: str = "thread") -> Expr | None:
    """``threadIdx.a == 0`` for each axis (``blockIdx.a == 0`` for level block)."""
    cond: Expr | None = None
    for a in sorted(axes):
        cond = both(cond, fold_node(Binary("==", cast(HwIndex(level, a), I32), i32(0))))
    return cond
