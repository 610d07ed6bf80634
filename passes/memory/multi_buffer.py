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

Of several loops one after another (``loop=k_tile,k_1_tile``) each becomes a pipeline, also where they stage their tiles
in the same arrays.

With ``issue=spread`` the asynchronous copies of a round are issued one after each step of the serial loop that computes
(``passes/lowering/copies/spreading.py``), so that finding their addresses holds nobody up.

                                                after multi-buffer{loop=k_tile stages=$S by=producer}
                                                    for k_tile in 0..n step 8
                                                      produce k_tile / 8 % $S of $S
                                                        par A_i ...: async_copy A_s[k_tile / 8 % $S, ..] = ...
                                                      C  (reads A_s[k_tile / 8 % $S, ..])

With ``by=producer`` no thread of the block copies: one beside them does, as far ahead as there are buffers, and each
round waits for its own buffer alone. It copies whole boxes of matrices (``passes/lowering/copies/producer_copies.py``
says which), so the copies must be asynchronous ones. How long a buffer rests is then for lowering to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ktc.ir.analysis.order import places
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    AsyncCommit,
    AsyncWait,
    Expr,
    For,
    Par,
    Stmt,
    Sym,
    has_bodies,
)  # fmt: skip
from ktc.ir.walk import assigned, used_in, walk
from ktc.passes.core.argument_kinds import Loops, Size
from ktc.passes.core.arguments import knob, option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, accepted, allowed, attempted
from ktc.passes.core.script import KnobRef
from ktc.passes.loops.tile import counted
from ktc.passes.shared.tiles import copied, is_blocked, is_copy, paths, places_of_copies

from .tile_pipeline import Ahead, Pipeline, destinations, pipelined


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the serial loop that stages tiles, or several, one after another")
    stages: Size = knob("STAGES", (2, 3, 4, 5), "tiles in flight", wish=3, code="E-BUFFER-STAGES")
    slack: int = option(
        0, "rounds that a buffer rests between its use and the next copy", code="E-BUFFER-STAGES", least=0
    )
    issue: Literal["first", "spread"] = option(
        "first", "when threads issue copies: first in a round, or spread over it"
    )
    by: Literal["threads", "producer"] = option(
        "threads", "who copies: the threads themselves, or a producer beside them"
    )
    cluster: Literal[1, 2, 4, 8] = option(1, "blocks whose producers copy for each other")


class MultiBuffer(Pass[Arguments]):
    name = "multi-buffer"
    summary = "a pipeline of staged tiles: copy the next ones while this one is used"
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
            if isinstance(s, For) and allowed(_pipeline, kernel, s):
                step = self.step(loop=place_of(kernel, s), stages=KnobRef("STAGES"))
                out.append(Site(step, "the next tile arrives while this one is used"))
        return out

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        found = args.loop.find(kernel)
        kernel, n = _stages(kernel, args)
        plans = _those(kernel, args.loop, [s for s in found if isinstance(s, For)])
        by_producer = args.by == "producer"
        if args.cluster != 1 and not by_producer:
            why = f"producers of {args.cluster} blocks copy for each other, threads do not"
            raise Refusal("E-ARG-RANGE", why, places(*(p.loop for p in plans)), "by=producer, or leave cluster out")
        for plan in plans:
            if args.issue == "spread":
                _check_spread(plan, args.by)
            if by_producer:
                _check_producer(kernel, plan, args.slack)
        how = Ahead(n, args.slack, args.cluster if by_producer else 0, args.issue == "spread")
        return Result(kernel.with_(body=pipelined(kernel.body, plans, how)))


def _stages(kernel: Kernel, args: Arguments) -> tuple[Kernel, Expr]:
    """How many buffers an array gets: two, and one more for each round that it rests."""
    least, written = 2 + args.slack, args.stages.written
    low = written.domain if isinstance(written, KnobRef) and written.domain else (written,)
    few = [k for k in low if isinstance(k, int) and k < least]
    if few:
        more = f", and one for each round of slack: {least} here" if args.slack else ""
        raise Refusal("E-BUFFER-STAGES", f"a pipeline has two stages or more{more}, not {few[0]}")
    domain = tuple(k for k in args.stages.spec.domain if k >= least)
    return args.stages.declared(kernel, MultiBuffer.name, domain)


def _those(kernel: Kernel, named: Loops, loops: list[For]) -> list[Pipeline]:
    """The pipelines of those of ``loops`` that stage tiles: one that is named alone has to."""
    plans = [attempted(_pipeline, kernel, s) for s in loops]
    able = [p for p in plans if isinstance(p, Pipeline)]
    if plans and not able:
        accepted(plans[0])
    if not able:
        raise Refusal("E-BUFFER-LOOP", f"'{named}' is not a serial loop that stages tiles", places(*loops))
    return able


def _pipeline(kernel: Kernel, s: For) -> Pipeline:
    locs = places(s)
    path = next(p for p in paths(kernel.body) if p[-1] is s)
    if not all(isinstance(p, Par) and is_blocked(p) for p in path[:-1]) or len(path) < 2:
        raise Refusal("E-BUFFER-LOOP", f"'{s.var.name}' is not the block's own loop", locs, "run register-tile first")
    limit, stride = counted(s)
    k = 0
    while k < len(s.body) and (is_copy(s.body[k]) or isinstance(s.body[k], AsyncCommit | AsyncWait)):
        k += 1
    head, rest = s.body[:k], s.body[k:]
    arrays = frozenset(destinations(head))
    if not arrays:
        raise Refusal("E-BUFFER-COPIES", f"'{s.var.name}' does not start with a copy", locs, "run stage-shared first")
    if any(len(a.type.shape) and a in _sliced(kernel) for a in arrays):  # type: ignore[attr-defined]
        raise Refusal("E-BUFFER-FLOW", "an address of a staged array is taken", locs)
    if destinations(rest) & arrays:
        raise Refusal("E-BUFFER-FLOW", "the round writes a staged array itself", locs)
    if places_of_copies(head) & assigned(s.body):
        raise Refusal("E-BUFFER-FLOW", "where the next round's tiles lie is only known in that round", locs)
    for name in _leaking(path[-2], s, arrays):
        why = f"'{name}' is used outside '{s.var.name}' too, where nothing fills it first"
        raise Refusal("E-BUFFER-FLOW", why, locs)
    asynchronous = any(isinstance(x, AsyncCommit) for x in head)
    copies = tuple(x for x in head if not isinstance(x, AsyncWait))
    return Pipeline(s, copies, rest, arrays, limit, stride, asynchronous)


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
        touched = (used_in((s,)) | destinations((s,))) & arrays
        own = dict(copied(s.body)) if isinstance(s, For) else {}
        out += [a.name for a in touched if a not in own or own[a] != mine.get(a)]
    return out


def _check_spread(p: Pipeline, by: str) -> None:
    """The copies of ``p`` can be issued between the steps of a round, or it is refused."""
    locs = places(p.loop)
    if by != "threads" or not p.asynchronous:
        why = "asynchronous copies of the threads themselves are spread over a round"
        raise Refusal("E-BUFFER-COPIES", why, locs, "run async-copy first, and leave by out")
    if not any(isinstance(x, For) for x in walk(p.rest)):
        raise Refusal("E-BUFFER-LOOP", "the round has no serial loop whose steps could issue copies", locs)


def _check_producer(kernel: Kernel, p: Pipeline, slack: int) -> None:
    """A producer can make the copies of ``p``, or it is refused."""
    locs = (p.loop.loc,) if p.loop.loc else ()
    if not p.asynchronous:
        raise Refusal("E-BUFFER-COPIES", "a producer makes asynchronous copies", locs, "run async-copy first")
    if slack:
        raise Refusal("E-BUFFER-STAGES", "how long a buffer rests is derived with a producer", locs, "leave slack out")
    if places_of_copies(p.head):
        raise Refusal("E-BUFFER-COPIES", "where the tiles lie is in the threads' registers", locs, "leave by out")
    inside = {id(x) for x in walk((p.loop,))}
    for x in walk(kernel.body):
        if id(x) in inside or isinstance(x, Alloc):
            continue
        own = used_in((x,)) | destinations((x,)) if not has_bodies(x) else set()
        if own & p.arrays:
            raise Refusal("E-BUFFER-FLOW", "a staged array is used outside the loop too", locs)
