"""Scans of one tile after another, with what the tiles before came to, as one scan.

before                                                  after
    var carry: f32 = 0.0                                    scan(+) s: f32 = 0.0 over i in 0..n @ [thread.x 256, seq]
    for first in 0..n step 256                                yield x[i]
      scan(+) s: f32 = 0.0 over t in 0..256                   y[i] = s
        yield first + t < n ? x[first + t] : 0.0
        if first + t < n
          y[first + t] = s + carry
      carry += s

What each thread adds to the running value of its tile is what went before: together they are the running value of the
row. Threads beyond the last element add nothing and write nothing.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.analysis.accumulators import combine, is_identity, operands
from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.fold import cast, cdiv, is_const, mul, simplify
from ktc.ir.nodes import (
    Assign,
    Body,
    Decl,
    Expr,
    For,
    If,
    Level,
    Scan,
    Sym,
    Var,
    fresh,
)
from ktc.ir.types import Scalar, scalar_of
from ktc.ir.walk import assigned, declared, keep, map_body, substitute, used, used_in, with_bodies
from ktc.passes.raising.normalise.merge import rewritten
from ktc.passes.shared.accumulations import accumulation
from ktc.passes.shared.conjuncts import conjuncts_of
from ktc.passes.shared.equal_integers import same
from ktc.passes.shared.loop_bounds import upper_bound


def with_whole_scans(body: Body) -> Body:
    """``body`` with every such loop as a scan."""
    out = [with_bodies(s, with_whole_scans) for s in body]
    for k, s in enumerate(out):
        if isinstance(s, For):
            out[k : k + 1] = _whole(
                s, tuple(out[:k]), used_in(tuple(out[k + 1 :])) | assigned(tuple(out[k + 1 :]))
            ) or (s,)
            if out[k] is not s:
                return with_whole_scans(tuple(out))
    return tuple(out)


def _whole(loop: For, before: Body, later: set[Sym]) -> Body | None:
    """``loop`` as one scan, and what its variable then holds; None where it is something else."""
    scans = [s for s in loop.body if isinstance(s, Scan)]
    changed = [s for s in loop.body if isinstance(s, Assign)]
    if len(scans) != 1 or len(changed) != 1 or len(loop.body) != 2 or loop.body[0] is not scans[0]:
        return None
    (scan,), (update,) = scans, changed
    a, carry = accumulation(update), update.sym
    t = scalar_of(scan.acc.sym.type)
    if a is None or (a.op, a.value) != (scan.acc.op, Var(scan.acc.sym)) or carry.type != scan.acc.sym.type:
        return None
    if not is_identity(scan.acc.init, a.op, t) or carry in used_in(scan.body) | used(scan.acc.value):
        return None
    total = fresh(scan.acc.sym.name, t)
    then = map_body(scan.then, keep, lambda e: _joined(e, a.op, carry, scan.acc.sym, total))
    if {carry, scan.acc.sym} & (used_in(then) | assigned(then)):
        return None
    start = next((s for s in reversed(before) if carry in {*declared((s,))} | assigned((s,))), None)
    init = start.init if isinstance(start, Decl) else start.value if isinstance(start, Assign) else None
    whole = _over_all(loop, dataclasses.replace(scan, then=then), total)
    if init is None or whole is None or used(init) & assigned(before):
        return None
    whole = dataclasses.replace(whole, acc=dataclasses.replace(whole.acc, init=init))
    return (whole, Assign(carry, Var(total), loc=update.loc)) if carry in later else (whole,)


def _joined(e: Expr, op: str, carry: Sym, running: Sym, total: Sym) -> Expr:
    """``e`` with the running value of the row for that of the tile and what was carried into it."""
    parts = operands(e, op)
    if len(parts) < 2 or parts.count(Var(carry)) != 1 or parts.count(Var(running)) != 1:
        return e
    rest = [p for p in parts if p not in (Var(carry), Var(running))]
    out: Expr = Var(total)
    for p in rest:
        out = combine(op, out, p)
    return out


def _over_all(loop: For, scan: Scan, total: Sym) -> Scan | None:
    """``scan`` over the tiles of ``loop`` and the elements of a tile together, as ``total``."""
    step, hi = loop_step(loop), upper_bound(loop.cond, loop.var)
    t = loop.var.type
    if step is None or hi is None or not isinstance(t, Scalar) or not (is_const(loop.init, 0) and is_const(scan.lo, 0)):
        return None
    if not same(step, scan.hi) or used(hi) & (assigned(loop.body) | set(declared(loop.body)) | {loop.var}):
        return None
    tile, value = fresh(loop.var.name, t), fresh("value", scalar_of(scan.acc.value.type))
    marked = (*scan.body, Decl(value, scan.acc.value), *scan.then)
    place = substitute(marked, {loop.var: mul(Var(tile), cast(step, t))})
    found = rewritten(place, scan.var, tile, cast(scan.hi, t), loop.var.name)
    if found is None:
        return None
    i, whole = found
    at = next(k for k, s in enumerate(whole) if isinstance(s, Decl) and s.sym == value)
    wt = scalar_of(i.type)
    front, added, then = whole[:at], whole[at], whole[at + 1 :]
    assert isinstance(added, Decl) and added.init is not None
    tiles = mul(cdiv(cast(hi, wt), cast(step, wt)), cast(step, wt))
    end = cast(hi, wt) if _ends(then, i, cast(hi, wt)) else cast(simplify(tiles), wt)
    dist = scan.dist if scan.dist[-1] == Level("seq") else (*scan.dist, Level("seq"))
    acc = dataclasses.replace(scan.acc, sym=total, value=added.init)
    tags, comments = frozenset({f"loop:{i.name}"}), (*loop.comments, *scan.comments)
    return dataclasses.replace(
        scan,
        acc=acc,
        var=i,
        lo=cast(scan.lo, wt),
        hi=end,
        dist=dist,
        body=front,
        then=then,
        tags=tags,
        comments=comments,
    )


def _ends(then: Body, i: Sym, hi: Expr) -> bool:
    """Whether elements ``i`` from ``hi`` on do nothing with the running value; a guess that they add nothing to it."""

    def below(c: Expr) -> bool:
        end = upper_bound(c, i)
        return end is not None and same(end, hi)

    does = [s for s in then if not isinstance(s, Decl)]
    return all(isinstance(s, If) and not s.orelse and any(map(below, conjuncts_of(s.cond))) for s in does)


__all__ = ["with_whole_scans"]
