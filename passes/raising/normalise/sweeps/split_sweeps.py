"""One sweep that keeps a maximum and sums below it becomes two plain ones, once the threads' parts are reductions.

before                                                   after
    for i: m, s = m and s, and x[i] (``online``)             for i: m = max(m, x[i])
    reduce(max) top of m                                     reduce(max) top of m
    reduce(+) sum of s * exp(m - top)                        for i: z += exp(x[i] - top)
                                                             reduce(+) sum of z

A thread's s is the sum of exp(x - m) over its elements, and exp(x - m) exp(m - top) = exp(x - top).
"""

from __future__ import annotations

import dataclasses

from ktc.ir.nodes import (
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Decl,
    Expr,
    For,
    If,
    Reduce,
    Stmt,
    Sym,
    Var,
    While,
    fresh,
)
from ktc.ir.walk import assigned, used, used_in
from ktc.passes.shared.running.rescaled import online
from ktc.passes.shared.running.two_sweeps import first_sweep, from_zero, second_sweep


def swept_twice(body: Body) -> Body:
    """``body``, in thread form, with every such sweep in two."""
    out = [_inside(s) for s in body]
    at = 0
    while at < len(out):
        s = out[at]
        split = _split(tuple(out[:at]), s) if isinstance(s, Reduce) else None
        if split is not None:
            before, more = split
            out[: at + 1] = [*before, *more]
            at = len(before) + len(more) - 1
        at += 1
    return tuple(out)


def _inside(s: Stmt) -> Stmt:
    if isinstance(s, If):
        return dataclasses.replace(s, then=swept_twice(s.then), orelse=swept_twice(s.orelse))
    if isinstance(s, For | While):
        return dataclasses.replace(s, body=swept_twice(s.body))
    return s


def _split(before: Body, total: Reduce) -> tuple[Body, Body] | None:
    """``before`` with the sweep for the maximum alone, then the sweep that ``total`` adds up, and ``total``."""
    wanted = [_scaled(a.value) for a in total.accs if a.op == "+"]
    if len(wanted) != len(total.accs) or None in wanted or total.body:
        return None
    found = {w[0]: w for w in wanted if w is not None}
    at = max((k for k, s in enumerate(before) if assigned((s,)) & found.keys()), default=-1)
    loop = before[at] if at >= 0 else None
    kept = online(loop.body) if isinstance(loop, For) else None
    if kept is None or not isinstance(loop, For) or {r.total for r in kept.sums} != found.keys():
        return None
    if any(m != kept.top for _, m, _ in found.values()) or not from_zero(before[:at], found):
        return None
    between = before[at + 1 :]
    if used_in(between) & found.keys() or (used(loop.init) | used_in((loop,))) & assigned(between):
        return None
    tops = {top for _, _, top in found.values()}
    if len(tops) != 1:
        return None
    sums = {r.total: fresh(r.total.name, r.total.type) for r in kept.sums}
    sweep = second_sweep(loop, kept, tops.pop(), sums)
    accs = tuple(dataclasses.replace(a, value=Var(sums[_sum_of(a.value)])) for a in total.accs)
    starts = [Decl(z, Const(0.0, z.type)) for z in sums.values()]  # type: ignore[arg-type]
    return (*before[:at], first_sweep(loop, kept), *between), (*starts, sweep, dataclasses.replace(total, accs=accs))


def _scaled(e: Expr) -> tuple[Sym, Sym, Sym] | None:
    """(s, m, top) of ``s * exp(m - top)``."""
    if not (isinstance(e, Binary) and e.op == "*" and isinstance(e.a, Var)):
        return None
    power = e.b.x if isinstance(e.b, Cast) else e.b
    apart = power.args[0] if isinstance(power, Call) else None
    if not (isinstance(apart, Binary) and apart.op == "-" and isinstance(apart.a, Var) and isinstance(apart.b, Var)):
        return None
    return e.a.sym, apart.a.sym, apart.b.sym


def _sum_of(e: Expr) -> Sym:
    assert isinstance(e, Binary) and isinstance(e.a, Var)
    return e.a.sym


__all__ = ["swept_twice"]
