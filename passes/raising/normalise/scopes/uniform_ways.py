"""Loops that threads share out and in which all of them go one way, as a loop for each of the ways.

before                                             after
    m = 0                                              m = 0
    for i = threadIdx.x; i < n; i + 256                if scaled
      v = x[i] * w[i]                                    for i = threadIdx.x; i < n; i + 256
      if scaled                                            v = x[i] * w[i]
        m = max(m, v)                                      m = max(m, v)
      else                                               ...
        y[i] = v                                       else
    if scaled                                            for i = threadIdx.x; i < n; i + 256
      ...                                                  v = x[i] * w[i]
                                                           y[i] = v

So is what a loop adds up in some of its ways alone: in the others there is nothing to add up. Branches under one
condition that stand one after the other are one.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.uniformity import Uniformity, uniformity_of
from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.nodes import Body, For, If, Par, Reduce, Stmt, While
from ktc.ir.purity import is_movable
from ktc.ir.walk import assigned, declared, map_body, refresh, used, with_bodies
from ktc.passes.raising.recognise.statement_kinds import threads_in


def with_uniform_ways(body: Body) -> Body:
    """``body`` with these loops, and what follows them under the same condition with them."""
    named, facts = definitions(body), uniformity_of(body)

    def on(s: Stmt) -> Stmt:
        shared_out = isinstance(s, For) and loop_step(s) is not None and threads_in(expand(s.init, named))
        return _by_ways(s, facts) if isinstance(s, For) and shared_out else s

    apart = map_body(body, on)
    return body if apart == body else _together(apart)


def _by_ways(s: For, facts: Uniformity) -> Stmt:
    """``s`` for each way of the first condition in it that all of its iterations and threads share, and under which it
    updates what is declared outside of it."""
    inside = {s.var, *declared(s.body), *assigned(s.body)}
    for k, way in enumerate(s.body):
        if not isinstance(way, If) or used(way.cond) & inside or not is_movable(way.cond):
            continue
        carried = {v for v in assigned((way,)) - set(declared(s.body)) if not hasattr(v.type, "space")}
        if not carried or not facts.is_uniform(way.cond):
            continue
        loops = (dataclasses.replace(s, body=(*s.body[:k], *b, *s.body[k + 1 :])) for b in (way.then, way.orelse))
        (then,), (orelse,) = (refresh((loop,)) if loop.body else (None,) for loop in loops)
        return dataclasses.replace(way, then=_ways(then, facts), orelse=_ways(orelse, facts))
    return s


def _ways(s: Stmt | None, facts: Uniformity) -> Body:
    return (_by_ways(s, facts),) if isinstance(s, For) else ()


def _together(body: Body) -> Body:
    """``body`` with branches under the condition of the branch before them in it."""
    out: list[Stmt] = []
    for s in body:
        last = out[-1] if out else None
        if isinstance(s, If) and isinstance(last, If) and _one_condition(last, s):
            out[-1] = dataclasses.replace(last, then=(*last.then, *s.then), orelse=(*last.orelse, *s.orelse))
            continue
        out.append(s)
    return tuple(with_bodies(s, _together) if isinstance(s, If | For | While | Par | Reduce) else s for s in out)


def _one_condition(first: If, then: If) -> bool:
    """Whether what decides ``then``, right behind ``first``, is what decided that."""
    return first.cond == then.cond and is_movable(then.cond) and not used(then.cond) & assigned((first,))


__all__ = ["with_uniform_ways"]
