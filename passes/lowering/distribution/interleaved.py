"""Loops inside interleaved iterations: those that begin elsewhere in each are counted from 0, all in one loop.

before                                          after
    par t in 0..n @ [unroll 4, block.x]             par t in 0..n @ [unroll 4, block.x]
      par i in t * 16..t * 16 + 16                    par i in 0..16
        x[i] = 0                                        x[t * 16 + i] = 0
"""

from __future__ import annotations

from functools import partial

from ktc.ir.nodes import Body, Decl, Par, Reduce, Stmt, Sym
from ktc.ir.walk import used, with_bodies
from ktc.passes.lowering.decider import Decider
from ktc.passes.shared.shifted_loops import from_zero, runs_alike


def counted_alike(body: Body, decide: Decider, moving: frozenset[Sym] = frozenset()) -> Body:
    """``body`` with the parallel loops counted from 0 that begin at what is in ``moving``, or hangs on it."""
    out: list[Stmt] = []
    for s in body:
        inner = moving
        if isinstance(s, Decl) and s.init is not None and used(s.init) & moving:
            moving |= {s.sym}
        if isinstance(s, Par | Reduce):
            if used(s.lo) & moving and runs_alike(s, moving, decide.facts):
                shifted = from_zero(s, decide.facts)
                s = shifted if isinstance(shifted, Par | Reduce) else s
            if any(lv.kind in ("vec", "unroll") for lv in s.dist):
                inner = moving | {s.var}
        out.append(with_bodies(s, partial(counted_alike, decide=decide, moving=inner)))
    return body if all(a is b for a, b in zip(out, body)) else tuple(out)


__all__ = ["counted_alike"]
