"""Loops that begin at another loop's counter, counted from 0 instead: their bounds then depend on nothing around them.

before                                          after
    par t in 0..n                                   par t in 0..n
      par i in t * 16..t * 16 + 16                    par i in 0..16
        x[i] = 0                                        x[t * 16 + i] = 0
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from ktc.ir.arith import Facts
from ktc.ir.arith.counted_loops import counting
from ktc.ir.arith.loop_extents import length
from ktc.ir.fold import add, cast, i32, lt
from ktc.ir.nodes import Expr, For, Par, Reduce, Sym, Var, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import substitute, substitute_expr, used

Loop = For | Par | Reduce


def bounds_of(loop: Loop) -> tuple[Expr, Expr] | None:
    """Where ``loop`` begins and ends; None for a serial one that does not count up to a limit."""
    if not isinstance(loop, For):
        return loop.lo, loop.hi
    form = counting(loop)
    return None if form is None or used(form.by) & {loop.var} else (form.lo, form.hi)


def runs_alike(loop: Loop, moving: Collection[Sym], facts: Facts) -> bool:
    """Whether ``loop`` is equally long whatever ``moving`` are; ``facts``: those where it begins."""
    ends = bounds_of(loop)
    return ends is not None and not used(length(*ends, facts)) & set(moving)


def from_zero(loop: Loop, facts: Facts) -> Loop | None:
    """``loop`` counted from 0, under a variable of its own; None where its start or its counter may change in it."""
    ends, t = bounds_of(loop), loop.var.type
    assert isinstance(t, Scalar)
    if ends is None or not facts.symbols.steady(ends[0]) or loop.var not in facts.symbols.loops:
        return None
    lo, zero = cast(ends[0], t), cast(i32(0), t)
    n, v = cast(length(*ends, facts), t), fresh(loop.var.name, t)
    env: dict[Sym, Expr] = {loop.var: add(lo, Var(v))}
    body = substitute(loop.body, env)
    if isinstance(loop, For):
        step = substitute_expr(loop.step, {loop.var: Var(v)})
        return dataclasses.replace(loop, var=v, init=zero, cond=lt(Var(v), n), step=step, body=body)
    if isinstance(loop, Reduce):
        accs = tuple(dataclasses.replace(a, value=substitute_expr(a.value, env)) for a in loop.accs)
        return dataclasses.replace(loop, var=v, lo=zero, hi=n, body=body, accs=accs)
    return dataclasses.replace(loop, var=v, lo=zero, hi=n, body=body)


__all__ = ["from_zero", "runs_alike"]
