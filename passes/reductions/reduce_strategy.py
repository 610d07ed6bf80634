"""reduce-strategy: how the threads of a reduction combine their partial results.

before                                              after reduce-strategy{loop=i strategy=shared}
    reduce(+) s over i in 0..d @ [...]                  reduce(+) s over i in 0..d @ [...] strategy shared

shuffle: lane exchanges inside warps, one shared slot per warp across them. shared: a tree in shared memory, for targets
without warp operations. serial: every thread walks the whole range (no exchange; only for loops without thread levels).
atomic, ticket: how the blocks of a reduction that spans several combine (see ``lowering/grid_reduce``).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from ktc.ir.analysis.order import places
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Reduce
from ktc.passes.core.argument_kinds import Loops
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.named_loops import loops, replace_loops
from ktc.passes.core.places import PARALLEL, places_of
from ktc.passes.core.refusals import Refusal, Result


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the reduction's loop")
    strategy: Literal["auto", "shuffle", "shared", "serial", "atomic", "ticket"] = required(
        "how partial results come together", code="E-REDUCE-STRATEGY"
    )


class ReduceStrategy(Pass[Arguments]):
    name = "reduce-strategy"
    summary = "combine a reduction's partial results by shuffles, a shared-memory tree, or not at all"
    refusals = ("E-PLACE", "E-REDUCE-NONE", "E-REDUCE-STRATEGY", "E-REDUCE-SERIAL")
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        names = places_of(kernel, [s for s in loops(kernel) if isinstance(s, Reduce)], PARALLEL)
        return [Site(self.step(loop=n, strategy=k)) for n in names for k in ("shuffle", "shared")]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        strategy, found = args.strategy, args.loop.spread(kernel)
        sums = [s for s in found if isinstance(s, Reduce)]
        if not sums:
            raise Refusal("E-REDUCE-NONE", f"'{args.loop}' is not a reduction", places(*found))
        if strategy == "serial" and any(lv.kind in ("thread", "lane", "warp") for s in sums for lv in s.dist):
            why = f"'{args.loop}' is spread over threads, so their parts must be combined"
            raise Refusal("E-REDUCE-SERIAL", why, places(*sums), "distribute it with seq levels alone first")
        new = replace_loops(kernel, sums, lambda s: dataclasses.replace(s, strategy=strategy))  # type: ignore[call-arg, arg-type]
        return Result(new.with_(flags=new.flags | {"reassociates"}), (f"{len(sums)} reduction(s): {strategy}",))
