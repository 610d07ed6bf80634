"""unroll-and-jam: several iterations of an outer loop run together through the loops inside it.

before                                          after unroll-and-jam{loop=i factor=$U}
    for i in 0..n                                   par i in 0..n @ [unroll $U, seq]
      for k in 0..m                                   for k in 0..m
        c[i] += a[i * m + k] * b[k]                     c[i] += a[i * m + k] * b[k]

What the inner loop loads for one iteration (``b[k]``) is loaded once for all of them. A serial loop whose iterations
are shown to be independent becomes a parallel one with an ``unroll`` level; a parallel loop gets that level. Lowering
does the jamming, with private scalars expanded and the tail guarded.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.analysis.dependence import carried_scalars, iterations_independent, noalias
from ktc.ir.analysis.order import jump, pinned, places
from ktc.ir.arith.counted_loops import why_uncounted
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Expr, For, Level, Par, Stmt
from ktc.ir.walk import map_body, walk
from ktc.passes.core.argument_kinds import Factor, Loop
from ktc.passes.core.arguments import knob, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.core.script import KnobRef

from .unroll import with_unroll


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the outer loop")
    factor: Factor = knob("U", (1, 2, 4, 8, 16), "iterations that run together", code="E-JAM-FACTOR")


class UnrollAndJam(Pass[Arguments]):
    name = "unroll-and-jam"
    summary = "several iterations of an outer loop run together through its inner loops"
    refusals = ("E-PLACE", "E-JAM-KIND", "E-JAM-FORM", "E-JAM-SYNC", "E-JAM-SCALAR", "E-JAM-DEPENDENCE", "E-JAM-FACTOR")

    def sites(self, kernel: Kernel) -> list[Site]:
        loops = [s for s in walk(kernel.body) if isinstance(s, For | Par) and _nest(s) and allowed(check, kernel, s)]
        doc = "reuse across iterations, in registers"
        return [Site(self.step(loop=place_of(kernel, s), factor=KnobRef("U")), doc) for s in loops]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        loop = args.loop.find(kernel)
        if not isinstance(loop, For | Par):
            hint = "distribute gives a reduction an unroll level"
            raise Refusal("E-JAM-KIND", f"'{args.loop}' is not a serial or parallel loop", places(loop), hint)
        check(kernel, loop)
        kernel, n = args.factor.declared(kernel, self.name)

        def on(s: Stmt) -> Stmt:
            return _jammed(s, n) if isinstance(s, For | Par) and s.var == loop.var else s

        return Result(kernel.with_(body=map_body(kernel.body, on)))


def _nest(s: For | Par) -> bool:
    return any(isinstance(x, For) for x in walk(s.body))


def _jammed(s: For | Par, n: Expr) -> Par:
    if isinstance(s, Par):
        return dataclasses.replace(s, dist=with_unroll(s.dist, n))
    assert isinstance(s.cond, Binary)
    dist = (Level("unroll", n), Level("seq"))
    return Par(s.var, s.init, s.cond.b, dist, s.body, loc=s.loc, comments=s.comments, tags=s.tags)


def check(kernel: Kernel, s: For | Par) -> None:
    """The iterations of ``s`` may run together, or it is refused."""
    bad = pinned(s.body) or jump(s.body)
    if bad:
        raise Refusal("E-JAM-SYNC", "the loop holds a barrier, opaque code or a jump", places(bad))
    if isinstance(s, Par):
        return
    uncounted = why_uncounted(s)
    if uncounted:
        raise Refusal("E-JAM-FORM", uncounted, places(s))
    carried = carried_scalars(s.body)
    if carried:
        names = ", ".join(sorted(x.name for x in carried))
        raise Refusal("E-JAM-SCALAR", f"iterations of '{s.var.name}' pass on: {names}", places(s))
    if not iterations_independent(s, noalias(kernel)):
        hint = "state noalias or __restrict__ if the buffers never overlap"
        raise Refusal("E-JAM-DEPENDENCE", f"iterations of '{s.var.name}' may depend on each other", places(s), hint)
