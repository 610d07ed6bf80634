"""persistent: a fixed number of blocks walks over the work instead of one block an iteration.

before                                              after persistent{loop=token blocks=$GRID}
    par token in 0..n @ [block.x]                       par token in 0..n @ [block.x $GRID, seq]

Blocks start once, whatever a block sets up serves all its iterations, and no wave of blocks is left half empty. The
iterations are independent and nothing in the language lets one wait for another, so the order in which blocks take
them cannot be observed.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.analysis.order import places
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Atomic, Level, Load, Par, Reduce
from ktc.ir.walk import stmt_exprs, walk, walk_expr
from ktc.passes.core.argument_kinds import Loops, Size
from ktc.passes.core.arguments import knob, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.named_loops import Loop, loops, replace_loops
from ktc.passes.core.places import PARALLEL, places_of
from ktc.passes.core.refusals import Refusal, Result
from ktc.passes.core.script import KnobRef

GRIDS = (64, 128, 256, 512, 1024, 2048)


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("a loop whose blocks take one iteration (or tile) each")
    blocks: Size = knob("GRID", GRIDS, "blocks that share the work", wish=256)


class Persistent(Pass[Arguments]):
    name = "persistent"
    summary = "a fixed number of blocks loops over the work"
    refusals = ("E-PLACE", "E-PERSISTENT-BLOCK", "E-PERSISTENT-WAIT")

    def sites(self, kernel: Kernel) -> list[Site]:
        found = [s for s in loops(kernel) if _open_block(s) and not _waits(s)]
        names = places_of(kernel, found, PARALLEL)
        doc = "blocks that stay and walk over the work"
        return [Site(self.step(loop=n, blocks=KnobRef("GRID")), doc) for n in names]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        found = args.loop.spread(kernel)
        locs = places(*found)
        if not all(_open_block(s) for s in found):
            why = f"'{found[0].var.name}' does not give each block an iteration of its own"
            raise Refusal("E-PERSISTENT-BLOCK", why, locs, "its distribution must end in an open block level")
        if any(_waits(s) for s in found):
            why = "its iterations read what others update atomically: they might wait for each other"
            raise Refusal("E-PERSISTENT-WAIT", why, locs)
        kernel, blocks = args.blocks.declared(kernel, self.name)

        def walking(s: Loop) -> Loop:
            last = s.dist[-1]
            return dataclasses.replace(s, dist=(*s.dist[:-1], Level("block", blocks, last.axis), Level("seq")))

        return Result(replace_loops(kernel, found, walking), (f"{found[0].var.name}: blocks that stay",))


def _open_block(s: Loop) -> bool:
    return isinstance(s, Par) and bool(s.dist) and s.dist[-1].kind == "block" and s.dist[-1].n is None


def _waits(loop: Par | Reduce) -> bool:
    """Whether an iteration reads memory that iterations update atomically: it might spin on another's progress."""
    updated = {s.buffer for s in walk((loop,)) if isinstance(s, Atomic)}
    read = {x.buffer for s in walk((loop,)) for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Load)}
    observed = any(isinstance(s, Atomic) and s.dst is not None for s in walk((loop,)))
    return bool(updated & read) or observed
