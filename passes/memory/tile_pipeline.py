"""The loops of ``multi-buffer``: a serial loop over tiles with its copies some rounds ahead of their use.

``multi_buffer.py`` shows what comes of them, and says when they may be made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.arith.polynomial import difference
from ktc.ir.fold import add, cast, fold_node, i32, lt, mul, simplify, sub
from ktc.ir.nodes import (
    Alloc,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Binary,
    Body,
    Const,
    Expr,
    For,
    If,
    Load,
    Par,
    Produce,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)  # fmt: skip
from ktc.ir.types import I32, Array, Scalar
from ktc.ir.walk import keep, map_body, refresh, substitute, walk


@dataclass(frozen=True)
class Pipeline:
    loop: For
    head: Body  # copies, and their commit
    rest: Body
    arrays: frozenset[Sym]
    limit: Expr
    stride: Expr
    asynchronous: bool


@dataclass(frozen=True)
class Ahead:
    """How copies run ahead: ``stages`` buffers, of which each rests for ``slack`` rounds; by ``producers`` of so many
    blocks, or (0) by the threads themselves, first in a round or ``spread`` over its steps."""

    stages: Expr
    slack: int = 0
    producers: int = 0
    spread: bool = False


def destinations(body: Body) -> set[Sym]:
    out: set[Sym] = set()
    for s in walk(body):
        if isinstance(s, Store) and isinstance(s.buffer.type, Array) and s.buffer.type.space == "shared":
            out.add(s.buffer)
        elif isinstance(s, AsyncCopy):
            out.add(s.dst)
    return out


def pipelined(body: Body, plans: Sequence[Pipeline], how: Ahead) -> Body:
    """``body`` with the loop of each of ``plans`` as a pipeline, and their arrays once for each stage; what else uses
    the arrays uses the first."""
    arrays = {a for p in plans for a in p.arrays}
    new = {a: fresh(a.name, Array(a.type.elem, (how.stages, *a.type.shape), "shared")) for a in arrays}  # type: ignore[attr-defined]
    made = {p.loop.var: (_produced if how.producers else _loops)(p, how, new) for p in plans}

    def place(s: Stmt) -> Stmt | Body:
        if isinstance(s, For) and s.var in made:
            return made[s.var]
        if isinstance(s, Alloc) and s.sym in new:
            return dataclasses.replace(s, sym=new[s.sym])
        return s

    return _at(map_body(body, place), new, i32(0))


def _at(body: Body, new: Mapping[Sym, Sym], slot: Expr) -> Body:
    """``body`` with the arrays in ``new`` replaced, at the buffer ``slot``."""

    def on(s: Stmt) -> Stmt:
        if isinstance(s, Store) and s.buffer in new:
            return dataclasses.replace(s, buffer=new[s.buffer], index=(slot, *s.index))
        if isinstance(s, AsyncCopy) and s.dst in new:
            return dataclasses.replace(s, dst=new[s.dst], dst_index=(slot, *s.dst_index))
        return s

    def read(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer in new:
            return dataclasses.replace(e, buffer=new[e.buffer], index=(slot, *e.index))
        return e

    return map_body(body, on, read)


def _round_number(s: For, p: Pipeline) -> Expr:
    """How many rounds of ``s`` came before this one."""
    t = s.var.type
    assert isinstance(t, Scalar)
    return fold_node(Binary("/", difference(Var(s.var), cast(s.init, t)), cast(p.stride, t)))


def _produced(p: Pipeline, how: Ahead, new: Mapping[Sym, Sym]) -> Body:
    slot = fold_node(Binary("%", cast(_round_number(p.loop, p), I32), how.stages))
    copies = tuple(x for x in p.head if isinstance(x, Par))
    first = Produce(slot, how.stages, _at(copies, new, slot), cluster=how.producers, loc=p.loop.loc)
    return (dataclasses.replace(p.loop, body=(first, *_at(p.rest, new, slot))),)


def _loops(p: Pipeline, how: Ahead, new: Mapping[Sym, Sym]) -> Body:
    s, t = p.loop, p.loop.var.type
    assert isinstance(t, Scalar)
    ahead = simplify(sub(how.stages, i32(1 + how.slack)))
    wait: Body = (AsyncWait(pending=simplify(sub(how.stages, i32(2 + how.slack)))),) if p.asynchronous else ()

    def copies(at: Expr, slot: Expr, spread: bool = False) -> Body:
        """Fill ``slot`` with the tile of round ``at``, if there is such a round."""
        nests = tuple(x for x in p.head if isinstance(x, Par))
        filled_in = _at(map_body(substitute(refresh(nests), {s.var: at}), keep, fold_node), new, slot)
        commit = tuple(AsyncCommit(spread) for x in p.head if isinstance(x, AsyncCommit))
        return (If(lt(at, p.limit), filled_in), *commit)

    first = fresh("p", I32)
    start = cast(s.init, t)

    def warm(n: Expr) -> Body:
        return copies(add(start, mul(cast(n, t), p.stride)), n)

    front: Body
    if isinstance(ahead, Const):
        front = tuple(x for n in range(int(ahead.value)) for x in warm(i32(n)))
    else:
        front = (For(first, i32(0), lt(Var(first), ahead), add(Var(first), i32(1)), warm(Var(first)), unroll=0),)
    number = _round_number(s, p)
    now = fold_node(Binary("%", cast(number, I32), how.stages))
    soon = fold_node(Binary("%", add(cast(number, I32), ahead), how.stages))
    nxt = copies(add(Var(s.var), mul(cast(ahead, t), p.stride)), soon, how.spread)
    return (*front, *wait, dataclasses.replace(s, body=(*nxt, *_at(p.rest, new, now), *wait)))


__all__ = ["Ahead", "Pipeline", "destinations", "pipelined"]
