"""reduce-strategy: how the threads of a reduction combine their partial results.

before                                              after reduce-strategy{loop=i strategy=shared}
    reduce(+) s over i in 0..d @ [...]                  reduce(+) s over i in 0..d @ [...] strategy shared

shuffle: lane exchanges inside warps, one shared slot per warp across them. shared: a tree in shared memory, for targets
without warp operations. serial: every thread walks the whole range (no exchange; only for loops without thread levels).
atomic, ticket: how the blocks of a reduction that spans several combine (see ``lowering/grid_reduce``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ktc.ir.analysis.order import places
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Reduce
from ktc.passes.core.base import Arg, ParamSpec, Pass, Refused, Result, Site
from ktc.passes.core.named_loops import find_loops, loops, replace_loops
from ktc.passes.core.places import PARALLEL, places_of

STRATEGIES = ("auto", "shuffle", "shared", "serial", "atomic", "ticket")


class ReduceStrategy(Pass):
    name = "reduce-strategy"
    summary = "combine a reduction's partial results by shuffles, a shared-memory tree, or not at all"
    params = (
        ParamSpec("loop", "the reduction's loop", required=True),
        ParamSpec("strategy", "auto | shuffle | shared | serial | atomic | ticket", required=True),
    )
    refusals = ("E-PLACE", "E-REDUCE-NONE", "E-REDUCE-STRATEGY", "E-REDUCE-SERIAL")
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        names = places_of(kernel, [s for s in loops(kernel) if isinstance(s, Reduce)], PARALLEL)
        return [Site(f"reduce-strategy{{loop={n} strategy={k}}}") for n in names for k in ("shuffle", "shared")]

    def apply(self, kernel: Kernel, args: Mapping[str, Arg]) -> Result | Refused:
        strategy = args["strategy"]
        if strategy not in STRATEGIES:
            return Refused(
                "E-REDUCE-STRATEGY", f"unknown strategy {strategy!r}", hint=f"one of {', '.join(STRATEGIES)}"
            )
        found = find_loops(kernel, args["loop"])
        if isinstance(found, Refused):
            return found
        sums = [s for s in found if isinstance(s, Reduce)]
        if not sums:
            return Refused("E-REDUCE-NONE", "that loop is not a reduction", places(*found))
        if strategy == "serial" and any(lv.kind in ("thread", "lane", "warp") for s in sums for lv in s.dist):
            return Refused("E-REDUCE-SERIAL", "the reduction is spread over threads, so their parts must be combined")
        new = replace_loops(kernel, sums, lambda s: dataclasses.replace(s, strategy=strategy))  # type: ignore[call-arg, arg-type]
        return Result(new.with_(flags=new.flags | {"reassociates"}), (f"{len(sums)} reduction(s): {strategy}",))
