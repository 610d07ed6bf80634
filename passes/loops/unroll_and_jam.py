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
from collections.abc import Mapping

from ktc.ir.analysis.dependence import carried_scalars, iterations_independent, noalias
from ktc.ir.analysis.order import jump, pinned, places
from ktc.ir.arith.counted_loops import why_uncounted
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Expr, For, Level, Par, Stmt
from ktc.ir.walk import map_body, walk
from ktc.passes.core.base import Arg, KnobRef, ParamSpec, Pass, Refused, Result, Site
from ktc.passes.core.knobs import size_argument
from ktc.passes.core.places import place_of, resolve_place

from .unroll import with_unroll

DOMAIN = (1, 2, 4, 8, 16)


class UnrollAndJam(Pass):
    name = "unroll-and-jam"
    summary = "several iterations of an outer loop run together through its inner loops"
    params = (
        ParamSpec("loop", "the outer loop", required=True),
        ParamSpec("factor", "iterations that run together: a number or a knob", default="$U"),
    )
    knobs = ("U: 1,2,4,8,16: iterations that run together",)
    refusals = ("E-PLACE", "E-JAM-KIND", "E-JAM-FORM", "E-JAM-SYNC", "E-JAM-SCALAR", "E-JAM-DEPENDENCE", "E-JAM-FACTOR")

    def sites(self, kernel: Kernel) -> list[Site]:
        loops = [s for s in walk(kernel.body) if isinstance(s, For | Par) and _nest(s) and not why_not(kernel, s)]
        return [
            Site(f"unroll-and-jam{{loop={place_of(kernel, s)} factor=$U}}", "reuse across iterations, in registers")
            for s in loops
        ]

    def apply(self, kernel: Kernel, args: Mapping[str, Arg]) -> Result | Refused:
        found = resolve_place(kernel, args["loop"])
        if isinstance(found, Refused):
            return found
        loop = found.stmt
        if not isinstance(loop, For | Par):
            hint = "distribute gives a reduction an unroll level"
            return Refused("E-JAM-KIND", f"'{args['loop']}' is not a serial or parallel loop", places(loop), hint)
        refused = why_not(kernel, loop)
        if refused:
            return refused
        factor = args.get("factor", KnobRef("U"))
        if not isinstance(factor, int | KnobRef):
            return Refused("E-JAM-FACTOR", f"a factor is a number or a knob, not '{factor}'")
        sized = size_argument(kernel, factor, DOMAIN, "iterations that run together", self.name)
        if isinstance(sized, Refused):
            return sized
        kernel, n = sized
        assert n is not None

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


def why_not(kernel: Kernel, s: For | Par) -> Refused | None:
    """Why the iterations of ``s`` do not run together; None if they do."""
    bad = pinned(s.body) or jump(s.body)
    if bad:
        return Refused("E-JAM-SYNC", "the loop holds a barrier, opaque code or a jump", places(bad))
    if isinstance(s, Par):
        return None
    uncounted = why_uncounted(s)
    if uncounted:
        return Refused("E-JAM-FORM", uncounted, places(s))
    carried = carried_scalars(s.body)
    if carried:
        names = ", ".join(sorted(x.name for x in carried))
        return Refused("E-JAM-SCALAR", f"iterations of '{s.var.name}' pass on: {names}", places(s))
    if not iterations_independent(s, noalias(kernel)):
        hint = "state noalias or __restrict__ if the buffers never overlap"
        return Refused("E-JAM-DEPENDENCE", f"iterations of '{s.var.name}' may depend on each other", places(s), hint)
    return None
