"""online-softmax: a maximum and the sums of exponentials below it in one sweep, a few positions a step.

before                                              after online-softmax{loop=j keys=4 tile=32}
    reduce(max) m over j in 0..n                        var m = -inf; var l = 0; array o_run[d] = 0
      reduce(+) s over k: q[k] * kc[j, k]               for j_tile in 0..n / 32
      yield s * c                                         for j_step in 0..8
    for j in 0..n                                           ... four positions from j_tile * 32 + j_step * 4 on
      reduce(+) s over k: q[k] * kc[j, k]                     (``softmaxes.softmax_steps``)
      p = exp(s * c - m)                                for j in n / 32 * 32..n
      l += p                                              ... one position
      par x in 0..d                                     l += l_run
        o[x] += p * v[j, x]                             par x in 0..d: o[x] += o_run[x]

Attention as FlashAttention computes it (Dao, Fu, Ermon, Rudra, Re: FlashAttention, 2022; the algebra is that of Milakov
and Gimelshein, arXiv 1805.02867): a score is computed once, and no row of scores is kept. What is kept between steps is
brought down to the largest value so far once a step, not once a position. A sweep that keeps its own maximum
(``m_new = max(m, s)``) is taken apart first. Loops over tiles are the same for all threads of a block, so that
``register-tile`` and ``stage-shared`` can share what a tile of positions reads.

Positions that only some threads of a block see (behind a causal mask, beside a window) are left to loops over single
positions in front of the tiles and behind them: of these each thread counts its own. Tiles hold what all threads see.

Legal where what hangs on the maximum is sums of products with exp(x - maximum) (:mod:`.scaled_values`), of what no
statement in between writes. Sums change their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from ktc.ir.fold import i32
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import For, Reduce, Stmt
from ktc.ir.walk import walk
from ktc.passes.core.argument_kinds import Loops, Size
from ktc.passes.core.arguments import knob, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed

from .softmaxes.one_sweep import in_one_sweep


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the loop of the maximum, or the one that keeps it")
    keys: Size = knob("KEYS", (4, 8, 2), "positions of a step", code="E-SOFTMAX-TILE")
    tile: Size = knob("TILE", (32, 64, 16), "positions of a tile, whole steps", code="E-SOFTMAX-TILE")


class OnlineSoftmax(Pass[Arguments]):
    name = "online-softmax"
    summary = "a softmax and the sums that it weights in one sweep, a few positions a step"
    refusals = ("E-PLACE", "E-SOFTMAX-NONE", "E-SOFTMAX-USE", "E-SOFTMAX-RANGE", "E-SOFTMAX-TILE")
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        found = [s for s in walk(kernel.body) if _may_be(s)] if kernel.is_parallel else []
        names = [place_of(kernel, s) for s in found if allowed(in_one_sweep, kernel, s, i32(4), i32(32))]
        return [Site(self.step(loop=n, keys=4, tile=32), "a score is computed once") for n in names]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        kernel, keys = args.keys.declared(kernel, self.name)
        kernel, tile = args.tile.declared(kernel, self.name)
        s = args.loop.one(kernel)
        if not _may_be(s):
            raise Refusal("E-SOFTMAX-NONE", f"'{args.loop}' neither finds a maximum nor keeps one")
        return Result(in_one_sweep(kernel, s, keys, tile), (f"{s.var.name}: one sweep",))


def _may_be(s: Stmt) -> TypeGuard[For | Reduce]:
    return isinstance(s, For) or (isinstance(s, Reduce) and [a.op for a in s.accs] == ["max"])


__all__ = ["OnlineSoftmax"]
