"""split-softmax: a softmax and the sums that it weights, a part of its positions a block.

before                                              after split-softmax{loop=j parts=$PARTS}
    par h in 0..heads @ [block.x]                       array tops, totals: f32[$PARTS, heads], sums: f32[.., d]
      par t in 0..n                                     par h in 0..heads @ [block.x]
        w[t] = f(t)                                       reduce(max) m over part in 0..$PARTS @ [block.y]
      reduce(max) m over j in 0..n                          ... all of it, over the positions lo..hi of the part:
        yield w[j]                                          reduce(max) mine over j in lo..hi; yield w[j]
      reduce(+) l over i in 0..n                            reduce(+) l over i in lo..hi
        w[i] = exp(w[i] - m)                                  w[i] = exp(w[i] - mine); yield w[i]
        yield w[i]                                          par c in 0..d
      par c in 0..d                                           reduce(+) a over u in lo..hi: w[u] * v[u * d + c]
        reduce(+) a over u in 0..n                            sums[part, h, c] = a
          yield w[u] * v[u * d + c]                         tops[part, h] = mine; totals[part, h] = l; yield mine
        o[h * d + c] = a / l                              reduce(+) l over p: totals[p, h] * exp(tops[p, h] - m)
                                                          par c in 0..d
                                                            reduce(+) a over p: sums[p, h, c] * exp(tops[p, h] - m)
                                                            o[h * d + c] = a / l

("Flash decoding": Dao, Haziza, Massa, Sizov: Flash-Decoding for long-context inference, 2023.) One query of attention
has as many blocks as it has heads, which leave most of a GPU idle; this way it has ``parts`` times as many. What
follows the maximum of all runs in the block of a head that ends last (``lowering/collectives/grid_reduce``).

Legal where what hangs on the maximum does so by exp(x - m) (:mod:`.scaled_values`), is summed up over the positions,
and what the positions leave on the way are elements of their own (:mod:`.own_elements`). A row in global memory is
brought to the maximum of all at the end, one in shared memory is as long as a part (:mod:`.part_rows`). Sums change
their order. A part that holds nothing but -inf takes zero for its maximum, so that no inf - inf arises in it. A part
without positions leaves zeros; with -inf at all positions the result is NaN as it is in the source, and without any
position, where no part counts, it is what the sums begin with.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from ktc.ir.analysis.order import places
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Expr, HwIndex, Par, Reduce, i32
from ktc.ir.walk import all_exprs, map_body, walk
from ktc.passes.core.argument_kinds import Loops, Size
from ktc.passes.core.arguments import knob, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.named_loops import Loop, loops
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.core.script import KnobRef
from ktc.passes.shared.grid_reductions import is_last_act
from ktc.passes.shared.tiles import paths

from .position_loops import with_sums
from .rfactor import free_axis
from .softmax_parts import Work, check_range


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the loop of the maximum")
    parts: Size = knob("PARTS", (2, 4, 8, 16, 32), "blocks that share the positions", code="E-SOFTMAX-PARTS")


class SplitSoftmax(Pass[Arguments]):
    name = "split-softmax"
    summary = "a softmax and the sums that it weights, a part of its positions a block"
    refusals = (
        "E-PLACE", "E-SOFTMAX-NONE", "E-SOFTMAX-PLACE", "E-SOFTMAX-ROWS", "E-SOFTMAX-USE", "E-SOFTMAX-RANGE",
        "E-SOFTMAX-PARTS",
    )  # fmt: skip
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        tops = _maxima(loops(kernel)) if kernel.is_parallel else []
        named = [place_of(kernel, s) for s in tops]
        found = [n for n in named if allowed(_split, kernel, Loops(n), i32(2))]
        return [Site(self.step(loop=n, parts=KnobRef("PARTS")), "positions shared by several blocks") for n in found]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        kernel, parts = args.parts.declared(kernel, self.name)
        return _split(kernel, args.loop, parts)


def _maxima(among: Sequence[Loop]) -> list[Reduce]:
    return [s for s in among if isinstance(s, Reduce) and [a.op for a in s.accs] == ["max"]]


def _split(kernel: Kernel, named: Loops, parts: Expr) -> Result:
    if not kernel.is_parallel:
        raise Refusal("E-SOFTMAX-PLACE", "the kernel says what each thread does", hint="run raise first")
    found = named.spread(kernel)
    top = next(iter(_maxima(found)), None)
    if top is None:
        raise Refusal("E-SOFTMAX-NONE", f"'{named}' finds no maximum", places(*found))
    kernel = with_sums(kernel, top)
    around, top = _placed(kernel, top)
    work = Work(kernel, around, top, parts)
    part, rest = work.lists(work.block, ())
    divided = work.divided(part)
    block = (*work.before, divided, *work.finished(rest))
    body = block
    if around:
        last = around[-1].var
        body = map_body(
            kernel.body, lambda s: dataclasses.replace(s, body=block) if isinstance(s, Par) and s.var == last else s
        )
    if not is_last_act(body, divided):
        why = "more is done beside the loops around the maximum, which would have to wait for all blocks"
        raise Refusal("E-SOFTMAX-PLACE", why, places(top), "fission the kernel")
    arrays = tuple(Alloc(a) for a in work.arrays)
    after = kernel.with_(body=(*arrays, *body), flags=kernel.flags | {"reassociates"})
    return Result(after, (f"{top.var.name}: its positions are shared by several blocks",))


# ------------------------------------------------------------------------------------------------------------ where


def _placed(kernel: Kernel, top: Reduce) -> tuple[list[Par], Reduce]:
    """The loops over blocks around the maximum, outermost first, and the maximum.

    Raises:
        Refusal: E-SOFTMAX-PLACE, E-SOFTMAX-RANGE.
    """
    *outer, whole_top = next(p for p in paths(kernel.body) if isinstance(p[-1], Reduce) and p[-1].var == top.var)
    assert isinstance(whole_top, Reduce)
    around = [s for s in outer if isinstance(s, Par) and {lv.kind for lv in s.dist} == {"block"}]
    if len(around) != len(outer) or any(lv.kind == "block" for lv in whole_top.dist):
        why = f"the maximum over '{top.var.name}' is not one that a block finds once"
        raise Refusal("E-SOFTMAX-PLACE", why, places(top), "spread the loops around it over blocks alone")
    block = around[-1].body if around else kernel.body
    inner = [s for s in walk(block) if isinstance(s, Par | Reduce) and any(lv.kind == "block" for lv in s.dist)]
    if inner or any(isinstance(e, HwIndex) for e in all_exprs(block)):
        why = "what a block does is spread over blocks already, or asks for the number of its block or thread"
        raise Refusal("E-SOFTMAX-PLACE", why, places(*inner) or places(top))
    if not free_axis(around):
        raise Refusal("E-SOFTMAX-PLACE", "the loops around the maximum use every axis of blocks", places(*around))
    for s in around:
        check_range(kernel, s)
    return around, whole_top
