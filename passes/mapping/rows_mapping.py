"""rows-mapping: several rows per block, each on its own group of threads.

before                                              after rows-mapping{loop=token rows=$ROWS lanes=$LANES}
    par token in 0..n @ [block.x]                       par token in 0..n @ [thread.y $ROWS, block.x]
      reduce(+) s over i in 0..d @ [thread.x 256, seq]    reduce(+) s over i in 0..d @ [thread.x $LANES, seq]

Short rows leave most of a block idle; rows side by side fill it, and groups of at most 32 lanes need no shared memory.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.analysis.order import places
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Expr, Level, Par, Reduce
from ktc.ir.walk import walk
from ktc.passes.core.argument_kinds import Loops, Size
from ktc.passes.core.arguments import knob, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.named_loops import Loop, loops, replace_loops
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result
from ktc.passes.core.script import KnobRef
from ktc.passes.shared.distribution_coverage import assume, fits_a_block, needed


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the loop over rows (one iteration a block now)")
    rows: Size = knob("ROWS", (1, 2, 4, 8, 16, 32), "rows a block", wish=8)
    lanes: Size = knob("LANES", (4, 8, 16, 32, 64, 128, 256, 512, 1024), "threads a row", wish=16)


class RowsMapping(Pass[Arguments]):
    name = "rows-mapping"
    summary = "several independent rows per block, each on its own lanes"
    refusals = ("E-PLACE", "E-ROWS-BLOCK", "E-ROWS-THREADS", "E-DIST-COVER")

    def sites(self, kernel: Kernel) -> list[Site]:
        rows = [s for s in loops(kernel) if _one_block_each(s) and _thread_loops(s)]
        knobs = {"rows": KnobRef("ROWS"), "lanes": KnobRef("LANES")}
        return [Site(self.step(loop=place_of(kernel, s), **knobs), "fill blocks on short rows") for s in rows]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        found = args.loop.spread(kernel)
        locs = places(*found)
        if len(found) > 1:
            raise Refusal("E-PLACE-AMBIGUOUS", f"'{args.loop}' names {len(found)} loops", locs, "name one of them")
        row = found[0]
        if not _one_block_each(row):
            raise Refusal("E-ROWS-BLOCK", f"'{row.var.name}' is not mapped to one block per iteration", locs)
        inner = _thread_loops(row)
        if not inner:
            raise Refusal("E-ROWS-THREADS", f"no loop inside '{row.var.name}' is spread over threadIdx.x alone", locs)
        kernel, rows = args.rows.declared(kernel, self.name)
        kernel, lanes = args.lanes.declared(kernel, self.name)
        block = row.dist[-1]
        kernel = replace_loops(
            kernel, [row], lambda s: dataclasses.replace(s, dist=(Level("thread", rows, "y"), block))
        )  # type: ignore[arg-type]
        kernel = replace_loops(kernel, inner, lambda s: dataclasses.replace(s, dist=_with_lanes(s, lanes)))  # type: ignore[arg-type]
        spread = {s.var: s for s in loops(kernel)}
        covered = [a for s in inner for a in needed(kernel, spread[s.var], _with_lanes(s, lanes))]
        return Result(assume(kernel, (*covered, fits_a_block(row, Binary("*", rows, lanes)))))


def _one_block_each(s: Loop) -> bool:
    return isinstance(s, Par) and len(s.dist) == 1 and s.dist[0].kind == "block" and s.dist[0].n is None


def _thread_loops(row: Loop) -> list[Loop]:
    """Loops inside ``row`` spread over threadIdx.x; empty if some inner loop uses another thread axis."""
    inner = [
        s for s in walk(row.body) if isinstance(s, Par | Reduce) and any(lv.kind in ("thread", "lane") for lv in s.dist)
    ]
    if any(lv.kind == "warp" or (lv.kind == "thread" and lv.axis != "x") for s in inner for lv in s.dist):
        return []
    return inner


def _with_lanes(s: Loop, lanes: Expr) -> tuple[Level, ...]:
    """The loop's levels with ``lanes`` threads; where the thread level took the whole range, the lanes walk it."""
    levels = tuple(Level("thread", lanes, "x") if lv.kind in ("thread", "lane") else lv for lv in s.dist)
    return (*levels, Level("seq")) if s.dist[-1].kind == "thread" and s.dist[-1].n is None else levels
