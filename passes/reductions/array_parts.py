"""Sums of parts that a loop left in an array, one an iteration, as sums over that loop.

before                                              after
    array part: shared f32[256]                         reduce(+) s: f32 = 0.0 over t in 0..256
    par t in 0..256 @ [thread.x 256]                      let e: f32 = x[t]
      let e: f32 = x[t]                                   yield e
      part[t] = e
    reduce(+) s: f32 = 0.0 over k in 0..256
      yield part[k]

That is how a block's sum is written without a tree: its first thread goes through what the others stored.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.analysis.effects import has_effect
from ktc.ir.arith.polynomial import same_value
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Body, Decl, Expr, Load, Par, Reduce, Store, Sym, Var
from ktc.ir.types import Array
from ktc.ir.walk import (
    all_exprs,
    assigned,
    declared,
    keep,
    map_body,
    map_expr,
    mentions,
    substitute,
    substitute_expr,
    walk,
    with_list_around,
)


def summed_where_made(kernel: Kernel, target: Reduce) -> Kernel:
    """``kernel`` with the parts that ``target`` adds up computed in it, under the variable of the loop that left them;
    the same object where they are no such parts."""

    def rewritten(before: Body, rest: Body) -> Body | None:
        at = next((k for k in range(len(before) - 1, -1, -1) if isinstance(before[k], Par)), None)
        if at is None or not all(isinstance(s, Decl | Alloc) and not has_effect(s) for s in before[at + 1 :]):
            return None
        made = before[at]
        assert isinstance(made, Par)
        parts = _parts(before, made, target, rest)
        gone = {s.buffer for s in parts if isinstance(s, Store)}
        kept = (s for s in before if s is not made and not (isinstance(s, Alloc) and s.sym in gone))
        return (*kept, _over(made, target, parts), *rest) if parts else None

    body = with_list_around(kernel.body, target, rewritten)
    return kernel if body is None else kernel.with_(body=body)


def _parts(before: Body, made: Par, target: Reduce, rest: Body) -> Body:
    """The stores at the end of ``made`` to arrays of which ``target`` reads that element, and nothing else any; none
    where either loop does more."""
    front = _front(made)
    stores = made.body[len(front) :]
    whole = same_value(made.lo, target.lo) and same_value(made.hi, target.hi)
    if not whole or not assigned(front) <= set(declared(front)):
        return ()
    found = [s for s in stores if isinstance(s, Store)]
    elsewhere = (*(s for s in before if s is not made), *front, *rest)
    for s in found:
        mine = [e for e in all_exprs((target,)) if isinstance(e, Load) and e.buffer == s.buffer]
        here = any(isinstance(x, Alloc) and x.sym == s.buffer for x in before)
        others = (x for x in walk(elsewhere) if not (isinstance(x, Alloc) and x.sym == s.buffer))
        if not (here and mine and _is_own(s, made.var)) or any(s.buffer in mentions(x) for x in others):
            return ()
        if not all(_is_at(e.index, target.var) and e.width == 1 for e in mine):
            return ()
        if sum(x.buffer == s.buffer for x in found) > 1:
            return ()
    return stores


def _front(made: Par) -> Body:
    """The body of ``made`` without the stores at its end."""
    n = len(made.body)
    while n and isinstance(made.body[n - 1], Store):
        n -= 1
    return made.body[:n]


def _is_own(s: Store, var: Sym) -> bool:
    """Whether ``s`` leaves a value of the element's type in element ``var`` of an array of the kernel."""
    t = s.buffer.type
    return isinstance(t, Array) and s.value.type == t.elem and s.width == 1 and _is_at(s.index, var)


def _is_at(index: tuple[Expr, ...], var: Sym) -> bool:
    return len(index) == 1 and same_value(index[0], Var(var))


def _over(made: Par, target: Reduce, parts: Body) -> Reduce:
    """``target`` over the loop of ``made``, with what this stored where it is read."""
    values = {s.buffer: s.value for s in parts if isinstance(s, Store)}
    moved = {target.var: Var(made.var)}

    def on(e: Expr) -> Expr:
        return values[e.buffer] if isinstance(e, Load) and e.buffer in values else e

    inside = map_body(substitute(target.body, moved), keep, on)
    accs = tuple(dataclasses.replace(a, value=map_expr(substitute_expr(a.value, moved), on)) for a in target.accs)
    return dataclasses.replace(
        target, accs=accs, var=made.var, lo=made.lo, hi=made.hi, dist=made.dist, body=(*_front(made), *inside)
    )


__all__ = ["summed_where_made"]
