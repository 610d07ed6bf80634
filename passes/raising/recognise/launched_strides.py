"""Loops that go on by the size of the launch, in the ways in which they are written.

for (b = 0; b < n; b += gridDim.x)                        for (j = blockIdx.x; j < n; j += gridDim.x)
  { j = b + blockIdx.x; if (j < n) .. }                     ..

i = global id; for (k = i; k < n; k += all threads) ..    for (k = global id; k < n; k += all threads) ..

par b in 0..size @ [block.x]                              par r in 0..rows @ [block.x size, seq]
  for (r = b; r < rows; r += size) ..                       ..

par t in 0..size @ [thread.x, block.y]                    par n in 0..batch @ [block.x]
  par n in 0..batch @ [block.x]                             par r in 0..rows @ [thread.x, block.y, seq]
    for (r = t; r < rows; r += size) ..                       ..

A launch of as many blocks as rows makes one trip of such a loop; what it becomes is right in any other launch as well.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.analysis.defs import expand
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.fold import cast, fold_node, i32, mul
from ktc.ir.kernel import Launch
from ktc.ir.nodes import (
    Alloc,
    AsyncCopy,
    Atomic,
    Barrier,
    Binary,
    Body,
    Decl,
    Expr,
    For,
    HwIndex,
    If,
    Level,
    Load,
    Par,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    bodies,
)
from ktc.ir.purity import is_removable
from ktc.ir.storage import is_local_array
from ktc.ir.types import I32, Scalar
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    map_body,
    mentions,
    stmt_exprs,
    substitute_expr,
    used,
    used_in,
    walk_expr,
)
from ktc.passes.shared.equal_integers import same
from ktc.passes.shared.loop_bounds import upper_bound

from .coordinates import AXES


def from_own_index(body: Body, launch: Launch) -> Body:
    """``body`` in which loops that guard the sum of their variable and of an index of the launch, and go on by how many
    of these there are, begin with the index: of all their rounds those do something in which the sum is in range."""
    return map_body(body, lambda s: _from_own_index(s, launch) if isinstance(s, For) else s)


def _from_own_index(s: For, launch: Launch) -> For:
    match s.body:
        case (Decl(sym=j, init=Expr() as index), If(then=then, orelse=()) as guard, *behind):
            pass
        case _:
            return s
    t, step, hi = j.type, loop_step(s), upper_bound(s.cond, s.var)
    form = linear_form(index, {s.var})
    own = without_casts(form.rest) if form is not None else None
    if form is None or own is None or step is None or hi is None or not isinstance(t, Scalar):
        return s
    end, among = upper_bound(guard.cond, j), _numbered(own, launch)
    if end is None or among is None or not same(hi, end):
        return s
    whole = same(step, among) and same(s.init, i32(0)) and same(form.coeff(s.var), i32(1))
    if not whole or s.var in used_in(then) | used(guard.cond) or j in assigned(then):
        return s
    by_blocks = isinstance(own, HwIndex) and own.level == "block"
    if behind and not (by_blocks and all(isinstance(b, Barrier) for b in behind)):
        return s  # a block that has no part in a round has nobody to wait for
    then_on = fold_node(Binary("+", Var(j), cast(step, t)))
    return dataclasses.replace(s, var=j, init=cast(own, t), cond=guard.cond, step=then_on, body=(*then, *behind))


def _numbered(own: Expr, launch: Launch) -> Expr | None:
    """How many there are of what ``own`` numbers from 0 on: the threads of a block, the blocks, or all threads of an
    axis; None if it is something else."""
    found = {x for x in walk_expr(own) if isinstance(x, HwIndex)}
    if isinstance(own, HwIndex):
        sizes = {"thread": launch.block, "block": launch.grid}.get(own.level)
        return sizes[AXES.index(own.axis)] if sizes else None
    axes = {x.axis for x in found}
    if {x.level for x in found} != {"thread", "block"} or len(axes) != 1:
        return None
    k = AXES.index(axes.pop())
    of = {x.level: x for x in found}
    number = Binary("+", Binary("*", cast(of["block"], I32), cast(launch.block[k], I32)), cast(of["thread"], I32))
    return mul(cast(launch.block[k], I32), cast(launch.grid[k], I32)) if same(own, number) else None


def started_in_place(body: Body) -> Body:
    """``i = global id; for (k = i; ..) ..`` -> ``for (k = global id; ..) ..``, where only loops begin at ``i``."""
    out = list(body)
    for d in [s for s in body if isinstance(s, Decl) and s.init is not None]:
        if d.sym in assigned(body) or not any(isinstance(x, HwIndex) for x in walk_expr(d.init)):  # type: ignore[arg-type]
            continue
        rest = [_begun(s, d) for s in out if s is not d]
        if any(isinstance(s, For) and d.sym in used(s.init) for s in out) and d.sym not in used_in(tuple(rest)):
            out = rest
    return tuple(out)


def _begun(s: Stmt, d: Decl) -> Stmt:
    """``s``, if it is a loop, beginning at what ``d`` names."""
    if not isinstance(s, For) or d.init is None:
        return s
    return dataclasses.replace(s, init=substitute_expr(s.init, {d.sym: d.init}))


def shared_out(body: Body, launch: Launch) -> Body:
    """``body`` in which loops over all threads or blocks of an axis whose iterations go on by how many there are, are
    loops over what those share out: a thread, or a block, takes every so many of them."""
    return map_body(body, lambda s: _shared_out(s, launch) if isinstance(s, Par) else s)


def _shared_out(s: Par, launch: Launch) -> Par:
    if len(s.body) == 1 and isinstance(inner := s.body[0], Par) and s.var not in used(inner.lo) | used(inner.hi):
        own = dataclasses.replace(s, body=inner.body)  # the loop within, whose rounds are no part of the sharing
        found = _shared_out(own, launch)
        return s if found is own else dataclasses.replace(inner, body=(found,))
    match s.body:
        case (*before, For() as loop) if all(isinstance(d, Decl) or _is_own_array(d) for d in before):
            pass
        case _:
            return s
    t, step, hi = loop.var.type, loop_step(loop), upper_bound(loop.cond, loop.var)
    last = s.dist[-1] if s.dist else None
    if step is None or hi is None or last is None or last.kind != "block" or last.n is not None:
        return s
    inside = (*before, *loop.body)
    names = _values(tuple(before), assigned(s.body))
    init, step, hi = (expand(e, names) for e in (loop.init, step, hi))
    first = _first(init, s.var)
    whole = first is not None and same(s.lo, i32(0)) and same(step, s.hi)
    arrays = {d.sym for d in before if isinstance(d, Alloc)}
    fixed = (used_in(loop.body) | used_in(tuple(before))) - assigned(loop.body) - set(declared(loop.body))
    if arrays and not _filled_anew(loop.body, arrays, frozenset(fixed - {loop.var})):
        return s
    mine = {loop.var, *declared(tuple(before))} & assigned(loop.body) - arrays
    if not whole or mine or s.var in used_in(inside) | used(hi) or not isinstance(t, Scalar):
        return s
    assert first is not None
    if (used(hi) | used(first)) & {*declared(tuple(before)), *assigned(loop.body)}:
        return s
    blocks = launch.grid[AXES.index(last.axis)]
    dist = (*s.dist[:-1], dataclasses.replace(last, n=blocks), Level("seq"))
    tags = frozenset({f"loop:{loop.var.name}"})
    comments = (*s.comments, *loop.comments)
    return dataclasses.replace(
        s, var=loop.var, lo=cast(first, t), hi=hi, dist=dist, body=inside, tags=tags, comments=comments
    )


def _values(before: Body, changing: set[Sym]) -> dict[Sym, Expr]:
    """What every block has computed ``before``, by name, from what it was launched with alone."""
    return {
        d.sym: d.init
        for d in before
        if isinstance(d, Decl)
        and d.init is not None
        and d.sym not in changing
        and is_removable(d.init)
        and not any(isinstance(x, Load) for x in walk_expr(d.init))
    }


def _is_own_array(s: Stmt) -> bool:
    return isinstance(s, Alloc) and is_local_array(s.sym)


def _filled_anew(body: Body, arrays: set[Sym], fixed: frozenset[Sym]) -> bool:
    """Whether each round of a loop over ``body`` goes to the same elements of the private ``arrays``, in one order,
    as the first one: what it reads of them it has written, else the first one would have read what nobody wrote.

    ``fixed``: what has one value in all rounds, and the variables of the loops around ``body`` in a round.
    """

    def same_in_all(e: Expr) -> bool:
        return used(e) <= fixed and not any(isinstance(x, Load | HwIndex) for x in walk_expr(e))

    for s in body:
        if not mentions(s) & arrays:
            continue
        if isinstance(s, For):
            ends = (substitute_expr(e, {s.var: i32(0)}) for e in (s.cond, s.step))
            if not all(map(same_in_all, (s.init, *ends))):
                return False
            if s.var in assigned(s.body) or not _filled_anew(s.body, arrays, fixed | {s.var}):
                return False
            continue
        if bodies(s) or any(arrays & used(e) for e in stmt_exprs(s) if _may_stop(e)):
            return False
        touched = [e.index for e in all_exprs((s,)) if isinstance(e, Load) and e.buffer in arrays]
        touched += [s.index] if isinstance(s, Store) and s.buffer in arrays else []
        if isinstance(s, Atomic | AsyncCopy) or not all(same_in_all(e) for index in touched for e in index):
            return False
    return True


def _may_stop(e: Expr) -> bool:
    """Whether some part of ``e`` is evaluated in some cases only."""
    return any(isinstance(x, Select) or (isinstance(x, Binary) and x.op in ("&&", "||")) for x in walk_expr(e))


def _first(init: Expr, v: Sym) -> Expr | None:
    """Where a loop begins that begins at ``init`` for each ``v`` from 0: the rest of the sum; None if it is none."""
    bare = without_casts(init)
    if bare == Var(v):
        return i32(0)
    parts = [(bare.a, bare.b), (bare.b, bare.a)] if isinstance(bare, Binary) and bare.op == "+" else []
    return next((rest for x, rest in parts if without_casts(x) == Var(v) and v not in used(rest)), None)


__all__ = ["from_own_index", "shared_out", "started_in_place"]
