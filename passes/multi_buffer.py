"""multi-buffer: copy the tiles of the rounds to come while this round computes.

before                                          after multi-buffer{loop=k_tile stages=$S}
    array A_s: shared f32[8, 64]                    array A_s: shared f32[$S, 8, 64]
    for k_tile in 0..n step 8                       for p in 0..$S - 1 unroll
      par A_i ...                                     if p * 8 < n
        A_s[..] = A[.. k_tile ..]                       par A_i ...: A_s[p, ..] = A[.. p * 8 ..]
      C  (reads A_s[..])                            for k_tile in 0..n step 8
                                                      if k_tile + ($S - 1) * 8 < n
                                                        par A_i ...: A_s[(k_tile / 8 + ($S - 1)) % $S, ..] = ...
                                                      C  (reads A_s[k_tile / 8 % $S, ..])

The copies are the loops at the start of the body. What they write is read in the same round only, so a round may find
it in another buffer. With asynchronous copies (``async-copy`` first), the commit stays with the copies, and the wait,
now for all but the newest ``S - 2`` groups, goes to the end of the round, in front of the barrier that lowering derives
there; a group is committed in every round, so that groups can be counted. One barrier a round is left: within one, the
buffer that is filled and the one that is read are different. With ``slack=1`` the copies run a round less ahead: the
buffer that a round has read is filled two rounds later, not in the next, so that work on it may outlast the round.

                                                after multi-buffer{loop=k_tile stages=$S by=producer}
                                                    for k_tile in 0..n step 8
                                                      produce k_tile / 8 % $S of $S
                                                        par A_i ...: async_copy A_s[k_tile / 8 % $S, ..] = ...
                                                      C  (reads A_s[k_tile / 8 % $S, ..])

With ``by=producer`` no thread of the block copies: one beside them does, as far ahead as there are buffers, and each
round waits for its own buffer alone. It copies whole boxes of matrices (``passes/lowering/bulk.py`` says which), so the
copies must be asynchronous ones. How long a buffer rests is then for lowering to say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from ktc.ir.analysis.polynomial import difference
from ktc.ir.fold import add, cast, fold_node, i32, lt, mul, simplify, sub
from ktc.ir.kernel import Kernel
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
    bodies,
    fresh,
)  # fmt: skip
from ktc.ir.types import I32, Array, Scalar
from ktc.ir.walk import keep, map_body, refresh, substitute, used_in, walk

from .base import Arg, KnobRef, ParamSpec, Pass, Refused, Result, Site
from .knobs import size_argument
from .order import places
from .places import named_loops, place_of
from .tile import counted
from .tiles import copied, is_blocked, is_copy, paths

DOMAIN = (2, 3, 4, 5)
CLUSTERS = (1, 2, 4, 8)


class MultiBuffer(Pass):
    name = "multi-buffer"
    summary = "a pipeline of staged tiles: copy the next ones while this one is used"
    params = (
        ParamSpec("loop", "the serial loop that stages tiles", required=True),
        ParamSpec("stages", "buffers per array, 2 or more", default="$STAGES"),
        ParamSpec("slack", "rounds that a buffer rests between its use and the next copy into it", default="0"),
        ParamSpec("by", "who copies: the threads themselves, or a producer beside them", default="threads"),
        ParamSpec("cluster", "blocks whose producers copy for each other", default="1"),
    )
    knobs = ("STAGES: 2,3,4,5: tiles in flight, the one in use included",)
    refusals = (
        "E-PLACE",
        "E-ARG-RANGE",
        "E-BUFFER-LOOP",
        "E-BUFFER-COPIES",
        "E-BUFFER-FLOW",
        "E-BUFFER-STAGES",
        "E-TILE-FORM",
    )

    def sites(self, kernel: Kernel) -> list[Site]:
        out = []
        for s in walk(kernel.body):
            if isinstance(s, For) and not isinstance(_pipeline(kernel, s), Refused):
                step = f"multi-buffer{{loop={place_of(kernel, s)} stages=$STAGES}}"
                out.append(Site(step, "the next tile arrives while this one is used"))
        return out

    def apply(self, kernel: Kernel, args: Mapping[str, Arg]) -> Result | Refused:
        found = named_loops(kernel, args)
        if isinstance(found, Refused):
            return found
        stages = args.get("stages", KnobRef("STAGES"))
        low = stages.domain if isinstance(stages, KnobRef) and stages.domain else (stages,)
        slack = args.get("slack", 0)
        if not isinstance(slack, int) or slack < 0:
            return Refused("E-BUFFER-STAGES", f"slack is a number of rounds, not {slack!r}")
        if any(isinstance(n, int) and n < 2 + slack for n in low):
            more = ", and one for each round of slack" if slack else ""
            return Refused("E-BUFFER-STAGES", f"a pipeline has two stages or more{more}")
        sized = size_argument(
            kernel, stages, tuple(n for n in DOMAIN if n >= 2 + slack), "tiles in flight", self.name, wish=3
        )
        if isinstance(sized, Refused):
            return sized
        kernel, n = sized
        assert n is not None
        by = args.get("by", "threads")
        if by not in ("threads", "producer"):
            return Refused("E-ARG-RANGE", f"copies are made by threads or by a producer, not by {by!r}")
        loops = [s for s in found if isinstance(s, For)]
        plans = [p for s in loops if not isinstance(p := _pipeline(kernel, s), Refused)]
        if len(plans) != 1:
            why = _pipeline(kernel, loops[0]) if loops and not plans else None
            if isinstance(why, Refused):
                return why
            hint = f"say {args['loop']}.1: the loop over whole tiles"
            return Refused("E-BUFFER-LOOP", f"'{args['loop']}' is not one serial loop that stages tiles", hint=hint)
        cluster = args.get("cluster", 1)
        if cluster not in CLUSTERS or (by == "threads" and cluster != 1):
            known = ", ".join(map(str, CLUSTERS))
            return Refused("E-ARG-RANGE", f"producers of {known} blocks copy for each other, not of {cluster!r}")
        if by == "threads":
            return Result(kernel.with_(body=_pipelined(kernel.body, plans[0], n, slack)))
        bad = _no_producer(kernel, plans[0], slack)
        assert isinstance(cluster, int)
        return bad or Result(kernel.with_(body=_pipelined(kernel.body, plans[0], n, slack, producers=cluster)))


@dataclass(frozen=True)
class _Pipeline:
    loop: For
    head: Body  # copies, and their commit
    rest: Body
    arrays: frozenset[Sym]
    limit: Expr
    stride: Expr
    asynchronous: bool


def _pipeline(kernel: Kernel, s: For) -> _Pipeline | Refused:
    locs = places(s)
    path = next(p for p in paths(kernel.body) if p[-1] is s)
    if not all(isinstance(p, Par) and is_blocked(p) for p in path[:-1]) or len(path) < 2:
        return Refused("E-BUFFER-LOOP", f"'{s.var.name}' is not the block's own loop", locs, "run register-tile first")
    shape = counted(s)
    if isinstance(shape, Refused):
        return shape
    k = 0
    while k < len(s.body) and (is_copy(s.body[k]) or isinstance(s.body[k], AsyncCommit | AsyncWait)):
        k += 1
    head, rest = s.body[:k], s.body[k:]
    arrays = frozenset(_destinations(head))
    if not arrays:
        return Refused("E-BUFFER-COPIES", f"'{s.var.name}' does not start with a copy", locs, "run stage-shared first")
    if any(len(a.type.shape) and a in _sliced(kernel) for a in arrays):  # type: ignore[attr-defined]
        return Refused("E-BUFFER-FLOW", "an address of a staged array is taken", locs)
    if _destinations(rest) & arrays:
        return Refused("E-BUFFER-FLOW", "the round writes a staged array itself", locs)
    for name in _leaking(path[-2], s, arrays):
        why = f"'{name}' is used outside '{s.var.name}' too, where nothing fills it first"
        return Refused("E-BUFFER-FLOW", why, locs)
    asynchronous = any(isinstance(x, AsyncCommit) for x in head)
    copies = tuple(x for x in head if not isinstance(x, AsyncWait))
    return _Pipeline(s, copies, rest, arrays, *shape, asynchronous)


def _destinations(body: Body) -> set[Sym]:
    out: set[Sym] = set()
    for s in walk(body):
        if isinstance(s, Store) and isinstance(s.buffer.type, Array) and s.buffer.type.space == "shared":
            out.add(s.buffer)
        elif isinstance(s, AsyncCopy):
            out.add(s.dst)
    return out


def _sliced(kernel: Kernel) -> set[Sym]:
    from ktc.ir.nodes import AddrOf
    from ktc.ir.walk import all_exprs

    return {e.buffer for e in all_exprs(kernel.body) if isinstance(e, AddrOf)}


def _leaking(parent: Stmt, loop: For, arrays: frozenset[Sym]) -> list[str]:
    """Staged arrays that other statements of the block use without filling them first."""
    out: list[str] = []
    mine = dict(copied(loop.body))
    body = parent.body  # type: ignore[attr-defined]
    for s in body:
        if s is loop or isinstance(s, Alloc):
            continue
        touched = (used_in((s,)) | _destinations((s,))) & arrays
        own = dict(copied(s.body)) if isinstance(s, For) else {}
        out += [a.name for a in touched if a not in own or own[a] != mine.get(a)]
    return out


def _no_producer(kernel: Kernel, p: _Pipeline, slack: int) -> Refused | None:
    """Why no producer can make the copies of ``p``."""
    locs = (p.loop.loc,) if p.loop.loc else ()
    if not p.asynchronous:
        return Refused("E-BUFFER-COPIES", "a producer makes asynchronous copies", locs, "run async-copy first")
    if slack:
        return Refused("E-BUFFER-STAGES", "how long a buffer rests is derived with a producer", locs, "leave slack out")
    inside = {id(x) for x in walk((p.loop,))}
    for x in walk(kernel.body):
        if id(x) in inside or isinstance(x, Alloc):
            continue
        own = used_in((x,)) | _destinations((x,)) if not any(True for _ in bodies(x)) else set()
        if own & p.arrays:
            return Refused("E-BUFFER-FLOW", "a staged array is used outside the loop too", locs)
    return None


def _pipelined(body: Body, p: _Pipeline, stages: Expr, slack: int, producers: int = 0) -> Body:
    """``body`` with the loop of ``p`` as a pipeline, and the arrays in ``stages`` copies; others use the first."""
    new = {a: fresh(a.name, Array(a.type.elem, (stages, *a.type.shape), "shared")) for a in p.arrays}  # type: ignore[attr-defined]
    made = _produced(p, stages, new, producers) if producers else _loops(p, stages, new, slack)

    def place(s: Stmt) -> Stmt | Body:
        if isinstance(s, For) and s.var == p.loop.var:
            return made
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


def _round_number(s: For, p: _Pipeline) -> Expr:
    """How many rounds of ``s`` came before this one."""
    t = s.var.type
    assert isinstance(t, Scalar)
    return fold_node(Binary("/", difference(Var(s.var), cast(s.init, t)), cast(p.stride, t)))


def _produced(p: _Pipeline, stages: Expr, new: Mapping[Sym, Sym], cluster: int) -> Body:
    slot = fold_node(Binary("%", cast(_round_number(p.loop, p), I32), stages))
    copies = tuple(x for x in p.head if isinstance(x, Par))
    first = Produce(slot, stages, _at(copies, new, slot), cluster=cluster, loc=p.loop.loc)
    return (dataclasses.replace(p.loop, body=(first, *_at(p.rest, new, slot))),)


def _loops(p: _Pipeline, stages: Expr, new: Mapping[Sym, Sym], slack: int) -> Body:
    s, t = p.loop, p.loop.var.type
    assert isinstance(t, Scalar)
    ahead = simplify(sub(stages, i32(1 + slack)))
    wait: Body = (AsyncWait(pending=simplify(sub(stages, i32(2 + slack)))),) if p.asynchronous else ()

    def copies(at: Expr, slot: Expr) -> Body:
        """Fill ``slot`` with the tile of round ``at``, if there is such a round."""
        nests = tuple(x for x in p.head if isinstance(x, Par))
        filled_in = _at(map_body(substitute(refresh(nests), {s.var: at}), keep, fold_node), new, slot)
        commit = tuple(x for x in p.head if isinstance(x, AsyncCommit))
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
    now = fold_node(Binary("%", cast(number, I32), stages))
    soon = fold_node(Binary("%", add(cast(number, I32), ahead), stages))
    nxt = copies(add(Var(s.var), mul(cast(ahead, t), p.stride)), soon)
    return (*front, *wait, dataclasses.replace(s, body=(*nxt, *_at(p.rest, new, now), *wait)))
