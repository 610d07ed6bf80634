"""join-counts: few blocks count for many, each in its own array of shared memory, which it adds up once.

before                                              after join-counts{array=own blocks=264}
    par b in 0..blocks @ [block.x]                      par first in 0..min(blocks, 264) @ [block.x]
      array own: shared u32[4096]                         array own: shared u32[4096]
      par k in 0..4096 @ [thread.x 256]                   par k in 0..4096 @ [thread.x 256]
        own[k] = 0                                          own[k] = 0
      par t in 0..256 @ [thread.x 256]                    par t in 0..256 @ [thread.x 256]
        if b * 256 + t < n                                  for b = first; b < blocks; b + 264
          atomic add own[x[b * 256 + t]], 1                   if b * 256 + t < n
      par m in 0..4096 @ [thread.x 256]                         atomic add own[x[b * 256 + t]], 1
        atomic add count[m], own[m]                       par m in 0..4096 @ [thread.x 256]
                                                            atomic add count[m], own[m]

What is cleared and added a block's array at a time is then done as often as there are blocks on the device at once. The
source's array stays, and with it what it says of the values that are counted: that there is none beyond it.

Legal where ``unprivatize-atomics`` is, and clearing and adding are the same for all blocks. Floating-point sums change
their order.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.analysis.order import jump, places
from ktc.ir.fold import add, cast, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Binary, Body, Call, Const, Expr, For, Par, Stmt, Var, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import assigned, declared, used, used_in, walk
from ktc.passes.core.argument_kinds import Arrays, Size
from ktc.passes.core.arguments import knob, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.named_loops import replace_loops
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.core.script import KnobRef

from .unprivatize_atomics import Counts, counts_of


@dataclass(frozen=True)
class Arguments:
    array: Arrays = required("the array in shared memory that each block counts in")
    blocks: Size = knob("BLOCKS", (132, 264, 528, 1056), "blocks that count", wish=264)


class JoinCounts(Pass[Arguments]):
    name = "join-counts"
    summary = "few blocks count for many, and add up what they counted once"
    refusals = ("E-UNPRIVATIZE-NONE", "E-UNPRIVATIZE-USED", "E-UNPRIVATIZE-WHOLE", "E-UNPRIVATIZE-TARGET",
                "E-JOIN-COUNTS-BLOCK")  # fmt: skip
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        """One for each array that blocks count in."""
        names = [s.sym.name for s in walk(kernel.body) if isinstance(s, Alloc)] if kernel.is_parallel else []
        doc = "the array is cleared and added once for many blocks"
        return [Site(self.step(array=n, blocks=KnobRef("BLOCKS")), doc) for n in names if allowed(_share, kernel, n)]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        found, block = _share(kernel, args.array.name)
        kernel, blocks = args.blocks.declared(kernel, self.name)
        flags = kernel.flags | ({"reassociates"} if found.element.is_float else set())
        done = replace_loops(kernel, [block], lambda _: (_joined(found, block, blocks),))
        return Result(done.with_(flags=flags), (f"{found.own.name}: counted in by few blocks",))


def _share(kernel: Kernel, name: str) -> tuple[Counts, Par]:
    """What is counted in the array called ``name``, and the loop over the blocks that count in it."""
    found = counts_of(kernel, name)
    block = next(s for s in walk(kernel.body) if isinstance(s, Par) and any(x is found.alloc for x in s.body))
    if block.body[-1] is not found.flush or jump(block.body) is not None:
        why = f"the blocks that count in '{name}' do something else after they have added it, or leave before"
        raise Refusal("E-JOIN-COUNTS-BLOCK", why, places(block))
    own = {v for v in (block.var, *declared(block.body), *assigned(block.body)) if isinstance(v.type, Scalar)}
    for s in (found.alloc, found.clear, found.flush):
        if own & (used_in((s,)) - {*declared((s,))}):
            why = f"'{name}' is cleared, or added to '{found.merge.buffer.name}', in another way by each block"
            raise Refusal("E-JOIN-COUNTS-BLOCK", why, places(s))
    return found, block


def _joined(found: Counts, block: Par, blocks: Expr) -> Par:
    """``block`` as ``blocks`` iterations, each of which does what several did."""
    t = block.var.type
    assert isinstance(t, Scalar)
    whole = (found.alloc, found.clear, found.flush)
    each: Body = tuple(s for s in block.body if not any(s is w for w in whole))
    first, count = fresh("first", t), cast(blocks, t)
    low = cast(block.lo, t)
    start, stays = add(low, Var(first)), Binary("<", Var(block.var), cast(block.hi, t))
    loop = For(block.var, simplify(start), stays, add(Var(block.var), count), each, loc=block.loc)
    extent = simplify(Binary("-", cast(block.hi, t), low))
    body = (found.alloc, found.clear, _by_thread(loop), found.flush)
    end = Call("min", (extent, count), t)
    return dataclasses.replace(block, var=first, lo=Const(0, t), hi=end, body=body)


def _by_thread(loop: For) -> Stmt:
    """``loop``; where its body is one loop over threads, inside of that: no thread waits for the others then."""
    if len(loop.body) != 1 or not isinstance(threads := loop.body[0], Par):
        return loop
    if loop.var in used(threads.lo) | used(threads.hi):
        return loop
    return dataclasses.replace(threads, body=(dataclasses.replace(loop, body=threads.body),))
