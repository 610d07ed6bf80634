"""linearise: parallel loops right inside each other become one loop, so that they share an axis of blocks.

before                                          after linearise{loops=n,k}
    par n in 0..images @ [block.x]                  par n_k in 0..images * channels @ [block.x]
      par k in 0..channels @ [block.z]                var k: i32 = n_k % channels
        out[n * channels + k] = ..                    var n: i32 = n_k / channels
                                                      out[n * channels + k] = ..

Blocks have three axes; the tiles of a convolution over a batch of images have four loops. ``delinearise`` is the way
back. Iterations of parallel loops are independent, so their new order is one of those that there were; the innermost
loop's are neighbours. The numbers of iterations are taken not to wrap when they are multiplied.

Refused unless the loops begin at 0, do nothing between each other, and run as often whatever the loops around say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

from ktc.ir.analysis.order import places
from ktc.ir.fold import cast, i32, is_const, mul
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Body, Decl, Expr, Level, Par, Var, fresh
from ktc.ir.walk import used
from ktc.passes.core.argument_kinds import Loops
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.named_loops import loops, replace_loops
from ktc.passes.core.places import PARALLEL, place_of
from ktc.passes.core.refusals import Refusal, Result, allowed


@dataclass(frozen=True)
class Arguments:
    loops: Loops = required("the parallel loops, each directly in the one before")


class Linearise(Pass[Arguments]):
    name = "linearise"
    summary = "parallel loops right inside each other as one loop, which shares an axis of blocks"
    refusals = ("E-PLACE", "E-LINEAR-LOOPS", "E-LINEAR-NEST", "E-LINEAR-BOUNDS")

    def sites(self, kernel: Kernel) -> list[Site]:
        pairs = [(s, s.body[0]) for s in loops(kernel) if isinstance(s, Par) and len(s.body) == 1]
        found = [(s, x) for s, x in pairs if isinstance(x, Par) and _is_the_blocks(s, x) and allowed(_check, (s, x))]
        doc = "an axis of blocks is free for another loop"
        return [Site(self.step(loops=(place_of(kernel, s), place_of(kernel, x))), doc) for s, x in found]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        named = args.loops.find(kernel, PARALLEL)
        nest = [s for s in loops(kernel) if any(s is x for x in named)]
        pars = tuple(s for s in nest if isinstance(s, Par))
        if len(pars) < 2 or len(pars) < len(nest):
            raise Refusal("E-LINEAR-LOOPS", "name two or more parallel loops", places(*nest))
        _check(pars)
        return Result(replace_loops(kernel, [pars[0]], lambda _: _joint(pars)))


def _is_the_blocks(*nest: Par) -> bool:
    """Whether no threads of a block share any of ``nest`` out."""
    return all(lv.kind in ("block", "seq") for s in nest for lv in s.dist)


def _check(nest: Sequence[Par]) -> None:
    """The loops of ``nest`` are one inside the other and as long as they are whatever these say, or it is refused."""
    for outer, inner in pairwise(nest):
        if len(outer.body) != 1 or outer.body[0] is not inner:
            why = f"'{inner.var.name}' is not all that '{outer.var.name}' does"
            raise Refusal("E-LINEAR-NEST", why, places(outer, inner))
    around = {s.var for s in nest}
    for s in nest:
        if not is_const(s.lo, 0) or used(s.hi) & around:
            why = f"'{s.var.name}' does not run from 0 to an end that is the same for all of them"
            raise Refusal("E-LINEAR-BOUNDS", why, places(s))
        if s.var.type != nest[0].var.type:
            raise Refusal("E-LINEAR-BOUNDS", "the loops do not count in one type", places(s))


def _joint(nest: Sequence[Par]) -> Par:
    """One loop over all iterations of ``nest``, the innermost loop's side by side."""
    joint = fresh("_".join(s.var.name for s in nest), nest[0].var.type)
    left: Expr = Var(joint)
    digits: list[Decl] = []
    for s in reversed(nest):
        last = s is nest[0]
        digits.append(Decl(s.var, left if last else Binary("%", left, s.hi)))
        left = left if last else Binary("/", left, s.hi)
    body: Body = (*digits, *nest[-1].body)
    levels = nest[0].dist if _is_the_blocks(*nest) else (Level("seq"),)
    zero = cast(i32(0), joint.type)  # type: ignore[arg-type]
    return dataclasses.replace(
        nest[0], var=joint, lo=zero, hi=reduce(mul, (s.hi for s in nest)), dist=levels, body=body
    )
