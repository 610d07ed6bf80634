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
    Assign,
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
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, refresh, used, used_in
from ktc.passes.rescaled import Online, Rescaled, online


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
    if any(m != kept.top for _, m, _ in found.values()) or not _from_zero(before[:at], found.keys()):
        return None
    between = before[at + 1 :]
    if used_in(between) & found.keys() or (used(loop.init) | used_in((loop,))) & assigned(between):
        return None
    tops = {top for _, _, top in found.values()}
    if len(tops) != 1:
        return None
    sweep, sums = _second_sweep(loop, kept, tops.pop())
    accs = tuple(dataclasses.replace(a, value=Var(sums[_sum_of(a.value)])) for a in total.accs)
    starts = [Decl(z, Const(0.0, z.type)) for z in sums.values()]  # type: ignore[arg-type]
    first = dataclasses.replace(loop, body=(*kept.before, Assign(kept.top, _larger(kept))))
    return (*before[:at], first, *between), (*starts, sweep, dataclasses.replace(total, accs=accs))


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


def _from_zero(before: Body, sums: object) -> bool:
    """Whether the last that ``before`` does to each of ``sums`` is to make it zero."""
    last = {s.sym: s.init if isinstance(s, Decl) else s.value for s in before if isinstance(s, Decl | Assign)}
    inside = assigned(tuple(s for s in before if not isinstance(s, Decl | Assign)))
    return all(isinstance(e := last.get(s), Const) and e.value == 0 and s not in inside for s in sums)  # type: ignore[attr-defined]


def _larger(kept: Online) -> Expr:
    t = kept.top.type
    assert isinstance(t, Scalar)
    return Call("max", (Var(kept.top), kept.value), t)


def _second_sweep(loop: For, kept: Online, top: Sym) -> tuple[For, dict[Sym, Sym]]:
    """The sweep that adds up below ``top``, and the new sum for each of the old."""
    sums = {r.total: fresh(r.total.name, r.total.type) for r in kept.sums}
    adds = tuple(Assign(sums[r.total], Binary("+", Var(sums[r.total]), _term(r, kept, top))) for r in kept.sums)
    (again,) = refresh((dataclasses.replace(loop, body=(*kept.before, *adds), comments=()),))
    assert isinstance(again, For)
    return again, sums


def _term(r: Rescaled, kept: Online, top: Sym) -> Expr:
    return r.term(kept.value, Var(top))


__all__ = ["swept_twice"]
