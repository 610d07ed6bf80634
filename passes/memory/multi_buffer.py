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

from collections.abc import Mapping

from ktc.ir.analysis.order import places
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    AsyncCommit,
    AsyncWait,
    For,
    Par,
    Stmt,
    Sym,
    has_bodies,
)  # fmt: skip
from ktc.ir.walk import used_in, walk
from ktc.passes.core.base import Arg, KnobRef, ParamSpec, Pass, Refused, Result, Site
from ktc.passes.core.knobs import size_argument
from ktc.passes.core.places import named_loops, place_of
from ktc.passes.loops.tile import counted
from ktc.passes.shared.tiles import copied, is_blocked, is_copy, paths

from .tile_pipeline import Ahead, Pipeline, destinations, pipelined

DOMAIN = (2, 3, 4, 5)
CLUSTERS = (1, 2, 4, 8)


class MultiBuffer(Pass):
    name = "multi-buffer"
    summary = "a pipeline of staged tiles: copy the next ones while this one is used"
    params = (
        ParamSpec("loop", "the serial loop that stages tiles", required=True),
        ParamSpec("stages", "buffers per array, 2 or more", default="$STAGES"),
        ParamSpec("slack", "rounds that a buffer rests between its use and the next copy into it", default="0"),
        ParamSpec(
            "issue", "when threads issue the copies ahead: first in a round, or spread over its steps", default="first"
        ),
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
            hint = f"name the loop over whole tiles, of {', '.join(s.var.name for s in loops)}" if plans else ""
            return Refused("E-BUFFER-LOOP", f"'{args['loop']}' is not one serial loop that stages tiles", hint=hint)
        cluster = args.get("cluster", 1)
        if cluster not in CLUSTERS or (by == "threads" and cluster != 1):
            known = ", ".join(map(str, CLUSTERS))
            return Refused("E-ARG-RANGE", f"producers of {known} blocks copy for each other, not of {cluster!r}")
        issue = args.get("issue", "first")
        bad = _cannot_spread(plans[0], by) if issue == "spread" else None
        if issue not in ("first", "spread"):
            bad = Refused("E-ARG-RANGE", f"copies are issued first or spread, not {issue!r}")
        assert isinstance(cluster, int)
        if by == "producer":
            bad = bad or _no_producer(kernel, plans[0], slack)
        how = Ahead(n, slack, cluster if by == "producer" else 0, issue == "spread")
        return bad or Result(kernel.with_(body=pipelined(kernel.body, plans[0], how)))


def _pipeline(kernel: Kernel, s: For) -> Pipeline | Refused:
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
    arrays = frozenset(destinations(head))
    if not arrays:
        return Refused("E-BUFFER-COPIES", f"'{s.var.name}' does not start with a copy", locs, "run stage-shared first")
    if any(len(a.type.shape) and a in _sliced(kernel) for a in arrays):  # type: ignore[attr-defined]
        return Refused("E-BUFFER-FLOW", "an address of a staged array is taken", locs)
    if destinations(rest) & arrays:
        return Refused("E-BUFFER-FLOW", "the round writes a staged array itself", locs)
    for name in _leaking(path[-2], s, arrays):
        why = f"'{name}' is used outside '{s.var.name}' too, where nothing fills it first"
        return Refused("E-BUFFER-FLOW", why, locs)
    asynchronous = any(isinstance(x, AsyncCommit) for x in head)
    copies = tuple(x for x in head if not isinstance(x, AsyncWait))
    return Pipeline(s, copies, rest, arrays, *shape, asynchronous)


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


def _cannot_spread(p: Pipeline, by: Arg) -> Refused | None:
    """Why the copies of ``p`` cannot be issued between the steps of a round."""
    locs = places(p.loop)
    if by != "threads" or not p.asynchronous:
        why = "asynchronous copies of the threads themselves are spread over a round"
        return Refused("E-BUFFER-COPIES", why, locs, "run async-copy first, and leave by out")
    if not any(isinstance(x, For) for x in walk(p.rest)):
        return Refused("E-BUFFER-LOOP", "the round has no serial loop whose steps could issue copies", locs)
    return None


def _no_producer(kernel: Kernel, p: Pipeline, slack: int) -> Refused | None:
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
        own = used_in((x,)) | destinations((x,)) if not has_bodies(x) else set()
        if own & p.arrays:
            return Refused("E-BUFFER-FLOW", "a staged array is used outside the loop too", locs)
    return None
