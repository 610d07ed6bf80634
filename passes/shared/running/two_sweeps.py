"""A sweep that keeps a maximum and sums below it (``rescaled``) as two: the maximum, then the sums below that.

before                                                          after
    for j in 0..c                                                   for j in 0..c
      let top: f32 = max(m, x[j])                                     m = max(m, x[j])
      s = s * exp(m - top) + exp(x[j] - top)                        for j in 0..c
      m = top                                                         s += exp(x[j] - m)

Sums begin at zero: what else they began with would have to follow the maximum too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ktc.ir.analysis.effects import has_effect
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Assign, Binary, Body, Call, Const, Decl, For, Stmt, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, refresh, used, used_in, with_bodies, without

from .rescaled import Online, online


def first_sweep(loop: For, kept: Online) -> For:
    """``loop`` for the maximum alone."""
    t = kept.top.type
    assert isinstance(t, Scalar)
    larger = Call("max", (Var(kept.top), kept.value), t)
    return dataclasses.replace(loop, body=(*kept.before, Assign(kept.top, larger, loc=loop.loc)))


def second_sweep(loop: For, kept: Online, top: Sym, sums: dict[Sym, Sym]) -> For:
    """``loop`` for the sums below ``top`` alone, put into ``sums``."""
    adds = tuple(
        Assign(sums[r.total], Binary("+", Var(sums[r.total]), r.term(kept.value, Var(top))), loc=loop.loc)
        for r in kept.sums
    )
    (again,) = refresh((dataclasses.replace(loop, body=(*kept.before, *adds), comments=()),))
    assert isinstance(again, For)
    return again


def from_zero(before: Body, sums: Iterable[Sym]) -> bool:
    """Whether the last that ``before`` does to each of ``sums`` is to make it zero."""
    last = {s.sym: s.init if isinstance(s, Decl) else s.value for s in before if isinstance(s, Decl | Assign)}
    inside = assigned(tuple(s for s in before if not isinstance(s, Decl | Assign)))
    return all(isinstance(e := last.get(s), Const) and e.value == 0 and s not in inside for s in sums)


def parted(kernel: Kernel, loops: Iterable[For]) -> Kernel:
    """``kernel`` with those of the serial ``loops`` in two that keep a maximum and sums below it, and do no more."""
    wanted = {s.var for s in loops}

    def on_list(body: Body) -> Body:
        out: list[Stmt] = []
        for s in body:
            kept = _pure_sweep(s) if isinstance(s, For) and s.var in wanted else None
            if kept is not None and kept.left & used_in(without(kernel.body, s)):
                kept = None  # what the last iteration leaves is asked for
            if kept is None or not isinstance(s, For) or not from_zero(tuple(out), (r.total for r in kept.sums)):
                out.append(with_bodies(s, on_list))
                continue
            same = {r.total: r.total for r in kept.sums}
            out += [first_sweep(s, kept), second_sweep(s, kept, kept.top, same)]
        return tuple(out)

    body = on_list(kernel.body)
    return kernel if body == kernel.body else kernel.with_(body=body)


def _pure_sweep(loop: For) -> Online | None:
    """What ``loop`` keeps, if it may run twice."""
    if any(has_effect(s) for s in loop.body) or (used(loop.cond) | used(loop.step)) & assigned(loop.body):
        return None
    return online(loop.body)


__all__ = ["first_sweep", "from_zero", "parted", "second_sweep"]
