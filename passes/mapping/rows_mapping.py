"""rows-mapping: several rows per block, each on its own group of threads.

before                                              after rows-mapping{loop=token rows=$ROWS lanes=$LANES}
    par token in 0..n @ [block.x]                       par token in 0..n @ [thread.y $ROWS, block.x]
      reduce(+) s over i in 0..d @ [thread.x 256, seq]    reduce(+) s over i in 0..d @ [thread.x $LANES, seq]

Short rows leave most of a block idle; rows side by side fill it, and groups of at most 32 lanes need no shared memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ktc.ir.analysis.order import places
from ktc.ir.fold import fold_node, i32
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import Binary, Expr, Level, Par, Reduce
from ktc.ir.walk import walk
from ktc.passes.core.base import Arg, KnobRef, ParamSpec, Pass, Refused, Result, Site
from ktc.passes.core.knobs import size_argument
from ktc.passes.core.named_loops import Loop, find_loops, loops, replace_loops
from ktc.passes.core.places import place_of
from ktc.passes.shared.distribution_coverage import assume, assumptions

from .distribute import MAX_THREADS


class RowsMapping(Pass):
    name = "rows-mapping"
    summary = "several independent rows per block, each on its own lanes"
    params = (
        ParamSpec("loop", "the loop over rows (one iteration a block now)", required=True),
        ParamSpec("rows", "rows a block", default="$ROWS"),
        ParamSpec("lanes", "threads a row", default="$LANES"),
    )
    knobs = ("ROWS: 1,2,4,8,16,32: rows a block", "LANES: 4..1024: threads a row")
    refusals = ("E-PLACE", "E-ROWS-BLOCK", "E-ROWS-THREADS", "E-DIST-COVER")

    def sites(self, kernel: Kernel) -> list[Site]:
        rows = [s for s in loops(kernel) if _one_block_each(s) and _thread_loops(s)]
        return [
            Site(f"rows-mapping{{loop={place_of(kernel, s)} rows=$ROWS lanes=$LANES}}", "fill blocks on short rows")
            for s in rows
        ]

    def apply(self, kernel: Kernel, args: Mapping[str, Arg]) -> Result | Refused:
        found = find_loops(kernel, args["loop"])
        if isinstance(found, Refused):
            return found
        locs = places(*found)
        if len(found) > 1:
            return Refused("E-PLACE-AMBIGUOUS", f"'{args['loop']}' names {len(found)} loops", locs, "name one of them")
        row = found[0]
        if not _one_block_each(row):
            return Refused("E-ROWS-BLOCK", f"'{row.var.name}' is not mapped to one block per iteration", locs)
        inner = _thread_loops(row)
        if not inner:
            return Refused("E-ROWS-THREADS", f"no loop inside '{row.var.name}' is spread over threadIdx.x alone", locs)
        sized = size_argument(
            kernel, args.get("rows", KnobRef("ROWS")), (1, 2, 4, 8, 16, 32), "rows a block", self.name, wish=8
        )
        if isinstance(sized, Refused):
            return sized
        kernel, rows = sized
        lanes_domain = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
        sized = size_argument(
            kernel, args.get("lanes", KnobRef("LANES")), lanes_domain, "threads a row", self.name, wish=16
        )
        if isinstance(sized, Refused):
            return sized
        kernel, lanes = sized
        assert rows is not None and lanes is not None
        block = row.dist[-1]
        kernel = replace_loops(
            kernel, [row], lambda s: dataclasses.replace(s, dist=(Level("thread", rows, "y"), block))
        )  # type: ignore[arg-type]
        kernel = replace_loops(kernel, inner, lambda s: dataclasses.replace(s, dist=_with_lanes(s, lanes)))  # type: ignore[arg-type]
        params = frozenset(p.sym for p in kernel.params)
        covered = [a for s in inner for a in assumptions(s, _with_lanes(s, lanes), False, params)]
        fits = Assume(fold_node(Binary("<=", Binary("*", rows, lanes), i32(MAX_THREADS))), "proven")
        settled = assume(kernel, (*covered, fits), self.name)
        return settled if isinstance(settled, Refused) else Result(settled)


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
