"""unroll: run several iterations of a loop per trip.

before                                          after unroll{loop=k factor=$U}
    for k in 0..n                                   for k in 0..n unroll $U

    par i in 0..d @ [vec 8, thread.x 128, seq]      par i in 0..d @ [vec 8, thread.x 128, unroll $U, seq]

A serial loop is marked, and the device compiler does the copying (``#pragma unroll``): its meaning stays. A parallel
loop gets an ``unroll`` level before its last one, so that each thread has several iterations in flight; lowering guards
the tail. ``factor=full`` is for loops whose trip count is known at compile time.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from ktc.ir.analysis.order import places
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, Const, Dist, Expr, For, Level, Stmt, bodies
from ktc.ir.walk import map_body, used, walk
from ktc.passes.core.argument_kinds import Factor, Loops
from ktc.passes.core.arguments import knob, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import LoopStmt, places_of
from ktc.passes.core.refusals import Refusal, Result
from ktc.passes.core.script import KnobRef
from ktc.passes.shared.serial_sums import known_count

MAX_FACTOR = 64

SHORT = 32
"""Iterations of a loop up to which it may be written out whole."""


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the loop")
    factor: Factor | Literal["full"] = knob(
        "U", (1, 2, 4, 8, 16), "iterations per trip", code="E-UNROLL-FACTOR", most=MAX_FACTOR
    )


class Unroll(Pass[Arguments]):
    name = "unroll"
    summary = "several iterations of a loop per trip"
    refusals = ("E-PLACE", "E-UNROLL-FACTOR", "E-UNROLL-FULL")

    def sites(self, kernel: Kernel) -> list[Site]:
        loops = [s for s in walk(kernel.body) if isinstance(s, LoopStmt) and _unrollable(s)]
        whole = "written out: nothing depends on a counter that is not known"
        return [
            *(Site(self.step(loop=n, factor="full"), whole) for n in places_of(kernel, _short_nests(kernel.body))),
            *(Site(self.step(loop=n, factor=KnobRef("U")), "more independent work in flight")
              for n in places_of(kernel, loops)),
        ]  # fmt: skip

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        found = args.loop.find(kernel)
        if args.factor == "full":
            return _fully(kernel, found)
        kernel, n = args.factor.declared(kernel, self.name)
        return Result(_replaced(kernel, found, lambda s: _by(s, n)))


def _short_nests(body: Body) -> list[For]:
    """The outermost serial loops of a known, small count with loops inside, whose ends and indices it makes known."""
    out: list[For] = []
    for s in body:
        short = isinstance(s, For) and s.unroll is None and 1 < (known_count(s) or 0) <= SHORT
        if isinstance(s, For) and short and any(isinstance(x, LoopStmt) for x in walk(s.body)):
            out.append(s)
        else:
            out += [x for b in bodies(s) for x in _short_nests(b)]
    return out


def _unrollable(s: LoopStmt) -> bool:
    """A serial loop, or a distributed one that is not yet unrolled."""
    return isinstance(s, For) or (bool(s.dist) and all(lv.kind != "unroll" for lv in s.dist))


def _by(s: LoopStmt, n: Expr) -> LoopStmt:
    if isinstance(s, For):
        return dataclasses.replace(s, unroll=int(n.value) if isinstance(n, Const) else n)
    return dataclasses.replace(s, dist=with_unroll(s.dist, n))


def with_unroll(dist: Dist, n: Expr) -> Dist:
    """The unroll level replaced if there is one, else put before the last level (``seq`` takes the rest if none)."""
    if any(lv.kind == "unroll" for lv in dist):
        changed = tuple(Level("unroll", n) if lv.kind == "unroll" else lv for lv in dist)
        return (
            changed if any(lv.n is None for lv in dist) else (*changed, Level("seq"))
        )  # fewer may not cover the range
    if not dist:
        return (Level("unroll", n), Level("seq"))
    if dist[-1].n is not None:  # every level is sized: what is left over goes to one more
        return (*dist, Level("unroll", n), Level("seq"))
    return (*dist[:-1], Level("unroll", n), dist[-1])


def _fully(kernel: Kernel, found: list[LoopStmt]) -> Result:
    for s in found:
        locs = places(s)
        if not isinstance(s, For):
            raise Refusal(
                "E-UNROLL-FULL", f"'{s.var.name}' is a parallel loop", locs, "give a factor, or a distribution"
            )
        bounds = used(s.init) | used(s.cond) | used(s.step)
        if bounds - {s.var}:
            names = ", ".join(sorted(x.name for x in bounds - {s.var}))
            hint = "give a factor, or specialize first"
            raise Refusal("E-UNROLL-FULL", f"how often '{s.var.name}' runs depends on {names}", locs, hint)
    return Result(_replaced(kernel, found, lambda s: dataclasses.replace(s, unroll=0)))


def _replaced(kernel: Kernel, found: list[LoopStmt], f) -> Kernel:
    wanted = {(s.var.id, type(s)) for s in found}

    def on(s: Stmt) -> Stmt | Body:
        return f(s) if isinstance(s, LoopStmt) and (s.var.id, type(s)) in wanted else s

    return kernel.with_(body=map_body(kernel.body, on))
