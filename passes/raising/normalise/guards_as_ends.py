"""Guards right under loops over a launch that is not known to reach as far as they do.

before                                                    after
    par i in 0..64 * blocks @ [thread.x 64, block.x]          par i in 0..min(n, 64 * blocks) @ [thread.x 64, block.x]
      if i < n                                                  out[i] = ..
        out[i] = ..

The loop does what it did, whatever the sizes are: it ends at ``n`` alone where what is known of them shows that there
are as many threads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence

from ktc.ir.analysis.defs import expand
from ktc.ir.arith import REWRITES, Facts, facts_of
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.fold import cast, is_const, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Binary, Body, Call, Decl, Expr, HwIndex, If, Knob, Load, Par, Stmt, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, used, walk_expr
from ktc.passes.shared.conjuncts import conjuncts_of


def with_guards_as_ends(raised: Kernel) -> Kernel:
    """``raised`` with the guards of its outermost loops in their ranges."""
    facts = facts_of(raised, REWRITES)
    sizes = {p.sym for p in raised.params if isinstance(p.sym.type, Scalar)} - assigned(raised.body)
    body = tuple(_ended(s, sizes, facts) if isinstance(s, Par) else s for s in raised.body)
    return raised if body == raised.body else raised.with_(body=body)


def _ended(nest: Par, sizes: Collection[Sym], facts: Facts) -> Par:
    """``nest``, loops right inside each other, each up to where the guard around all that they do says."""
    band = [nest]
    while band[-1].body and isinstance(inner := band[-1].body[-1], Par) and _declares_only(band[-1].body[:-1]):
        band.append(inner)
    *before, guard = band[-1].body or (None,)
    if not isinstance(guard, If) or guard.orelse or not _declares_only(before):
        return nest
    left: list[Expr] = []
    ends: dict[Sym, Expr] = {}
    # nothing but declarations comes before the guard: there, variables are what they start as
    names = {s.sym: s.init for p in band for s in p.body if isinstance(s, Decl) and s.init is not None}
    for c in conjuncts_of(guard.cond):
        said = expand(c, names)
        found = ((p.var, end) for p in band if (end := _end(said, p, ends.get(p.var, p.hi), sizes, facts)) is not None)
        v, end = next(found, (None, None))
        if v is None or end is None:
            left.append(c)
        else:
            ends[v] = end
    if not ends:
        return nest
    body = let_through(tuple(before), guard, left)
    for p in reversed(band):
        nest = dataclasses.replace(p, hi=ends.get(p.var, p.hi), body=body if p is band[-1] else (*p.body[:-1], nest))
    return nest


def _declares_only(body: Iterable[Stmt]) -> bool:
    return all(isinstance(s, Decl | Alloc) for s in body)


def _end(c: Expr, p: Par, hi: Expr, sizes: Collection[Sym], facts: Facts) -> Expr | None:
    """Where ``p``, which runs from zero up to ``hi``, ends under the condition ``c``, which is ``i < n`` of its counter
    and a number over ``sizes``; None where it says something else."""
    if not isinstance(c, Binary) or c.op not in ("<", ">") or not is_const(p.lo, 0):
        return None
    small, n = (c.a, c.b) if c.op == "<" else (c.b, c.a)
    if without_index_casts(small) != Var(p.var) or not used(n) | used(hi) <= set(sizes):
        return None
    if any(isinstance(x, Load | HwIndex | Knob) for e in (n, hi) for x in walk_expr(e)):
        return None
    t, counter = n.type, p.var.type
    assert isinstance(t, Scalar) and isinstance(counter, Scalar)
    if small.type != counter and not (t.bits >= counter.bits and facts.never_negative(n) and facts.never_negative(hi)):
        return None
    return simplify(cast(n if facts.at_most(n, hi) else Call("min", (n, cast(hi, t)), t), counter))


def let_through(before: Body, guard: If, left: Sequence[Expr]) -> Body:
    """What ``guard`` lets through, under the conditions that are ``left`` of it."""
    if not left:
        return (*before, *guard.then)
    cond = left[0]
    for c in left[1:]:
        cond = Binary("&&", cond, c)
    return (*before, dataclasses.replace(guard, cond=cond))


__all__ = ["let_through", "with_guards_as_ends"]
