"""Products of tiles that run on while the next round begins.

before                                             after
    acc[..] = 0                                        for k = 0; k < n; k += 64
    for k = 0; k < n; k += 64                            if k + 128 < n: copy to buffer (k / 64 + 2) % 4
      if k + 128 < n: copy to buffer (k / 64 + 2) % 4    tile_mma (acc..), a[k / 64 % 4], .. pending 1 keep k != 0
      tile_mma (acc..), a[k / 64 % 4], ...               ...
      ...                                                barrier
      barrier                                          tile_mma_wait 0
                                                       if !(0 < n): acc[..] = 0

A warpgroup's product is asynchronous. Waiting for it in its own round leaves the tensor cores idle from there to the
next product, over the wait for the next tile and the barrier; waiting for the one before, in the next round, does not.
Then a buffer must rest for one more round: what the loop writes in the round of a product and in the next one must be
other buffers than the product reads (``multi-buffer{slack=1}``). The round after that comes behind a barrier which
every warpgroup reaches after its wait. With a producer (``multi-buffer{by=producer}``) the round of a product keeps its
buffer for one more, and no barrier is needed. The first product starts sums that begin with zero; others, as those with
a bias, are set before the loop (ptxas runs products one by one where something defines an accumulator in between).

Loops where one of this cannot be shown stay as they are: correct, with each product waited for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.polynomial import same_value
from ktc.ir.fold import add, binary
from ktc.ir.nodes import (
    AsyncCopy,
    Barrier,
    Binary,
    Body,
    Const,
    Expr,
    For,
    If,
    Knob,
    Load,
    Produce,
    Stmt,
    Store,
    Sym,
    TileMma,
    TileMmaWait,
    Unary,
    Var,
    fresh,
    i32,
)
from ktc.ir.types import I32, Array
from ktc.ir.walk import assigned, map_expr, mentions, used, used_in, walk, with_bodies
from ktc.passes.lowering.decider import Decider
from ktc.passes.lowering.sync.derived_barriers import apart


def overlapped(body: Body, decide: Decider) -> Body:
    """``body`` with every product in flight for a round more, where that is safe."""
    out: list[Stmt] = []
    for s in body:
        s = with_bodies(s, lambda b: overlapped(b, decide))
        tile = _product(s, decide) if isinstance(s, For) else None
        if tile is None:
            out.append(s)
            continue
        assert isinstance(s, For)
        at = _zeros_before(out, tile, decide)
        keep = None if at is None else binary("!=", Var(s.var), s.init)
        ahead = dataclasses.replace(tile, pending=1, keep=keep)
        zeros = () if at is None else (out.pop(at),)
        out.append(dataclasses.replace(s, body=tuple(ahead if x is tile else _held(x) for x in s.body)))
        ran = map_expr(s.cond, lambda e, s=s: s.init if e == Var(s.var) else e)  # type: ignore[misc]
        out += [TileMmaWait(loc=tile.loc), *([If(Unary("!", ran), zeros, loc=tile.loc)] if zeros else [])]
    return tuple(out)


def _product(s: For, decide: Decider) -> TileMma | None:
    """The one product of loop ``s``, if it may stay in flight."""
    tiles = [x for x in walk(s.body) if isinstance(x, TileMma)]
    if len(tiles) != 1 or not any(x is tiles[0] for x in s.body) or tiles[0].pending or tiles[0].keep is not None:
        return None
    tile = tiles[0]
    arrays = {x.buffer for x in tile.acc if isinstance(x, Load)}
    rest = tuple(x for x in s.body if x is not tile)
    if len(arrays) != 1 or not all(isinstance(x, Load) for x in tile.acc):
        return None
    safe = _has_room(s.body[0], decide) if isinstance(s.body[0], Produce) else _rests(s, tile, decide)
    return None if arrays & (used_in(rest) | assigned(rest)) or not safe else tile


def _zeros_before(before: list[Stmt], tile: TileMma, decide: Decider) -> int | None:
    """The place of the loops that zero the sums of ``tile``, where they begin with that."""
    (acc,) = {x.buffer for x in tile.acc if isinstance(x, Load)}
    for at in reversed(range(len(before))):
        if acc in mentions(before[at]):
            return at if _zeroes(before[at], acc, decide) else None
    return None


def _held(s: Stmt) -> Stmt:
    """A producer whose buffers are kept for a round more."""
    return dataclasses.replace(s, hold=s.hold + 1) if isinstance(s, Produce) else s


def _has_room(s: Produce, decide: Decider) -> bool:
    """Whether one buffer more can be kept while another is filled: the products of a loop read those of its producer,
    which nothing else writes."""
    stages = decide.value(s.stages)
    return stages is not None and stages > s.hold + 1


def _rests(s: For, tile: TileMma, decide: Decider) -> bool:
    """Whether no buffer is written in the round of its product or the next, and a barrier ends each round."""
    k = next(i for i, x in enumerate(s.body) if x is tile)
    if not any(isinstance(x, Barrier) and x.scope == "block" for x in s.body[k + 1 :]) or s.var in assigned(s.body):
        return False
    for buffer, index in ((tile.a, tile.a_index), (tile.b, tile.b_index)):
        reads = _slot(index, s, 0, decide)
        for at in _writes(s.body, buffer):
            for later in (0, 1):
                writes = _slot(at, s, later, decide)
                if reads is None or writes is None or not apart(reads, writes):
                    return False
    return True


def _writes(body: Body, buffer: Sym) -> Iterator[tuple[Expr, ...]]:
    for x in walk(body):
        if isinstance(x, AsyncCopy) and x.dst == buffer:
            yield x.dst_index
        elif isinstance(x, Store) and x.buffer == buffer:
            yield x.index


_ROUND = Var(fresh("round", I32))


def _slot(index: tuple[Expr, ...], s: For, later: int, decide: Decider) -> Expr | None:
    """The buffer that ``index`` names, counted in rounds of ``s``, ``later`` rounds on."""
    step = without_index_casts(s.step)
    if not (isinstance(step, Binary) and step.op == "+" and step.a == Var(s.var)):
        return None
    done = Binary("-", Var(s.var), s.init)
    one_by_one = decide.equal(step.b, i32(1))

    def on(e: Expr) -> Expr:
        if one_by_one and e == Var(s.var):
            return add(_ROUND, add(s.init, i32(later)))
        if isinstance(e, Knob) and (v := decide.value(e)) is not None:
            return i32(v)
        if isinstance(e, Binary) and e.op == "/" and same_value(e.a, done) and decide.equal(e.b, step.b):
            return add(_ROUND, i32(later)) if later else _ROUND
        return e

    out = map_expr(without_index_casts(index[0]), on)
    return None if s.var in used(out) or len(index) < 2 else out


def _zeroes(s: Stmt, acc: Sym, decide: Decider) -> bool:
    """Whether ``s`` is loops that set every element of ``acc`` to zero, and nothing else."""
    variables: list[tuple[Sym, int]] = []
    while isinstance(s, For) and len(s.body) == 1:
        n = decide.rounds(s)
        if n is None:
            return False
        variables.append((s.var, n))
        s = s.body[0]
    if not isinstance(s, Store) or s.buffer != acc or not isinstance(acc.type, Array) or s.width != 1:
        return False
    if not (isinstance(s.value, Const) and s.value.value == 0):
        return False
    extents: dict[Expr, int] = {Var(v): n for v, n in variables}
    at_all = len(set(s.index)) == len(s.index) == len(extents)
    return at_all and [extents.get(i) for i in s.index] == [decide.value(n) for n in acc.type.shape]


__all__ = ["overlapped"]
