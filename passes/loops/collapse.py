"""collapse: loops over blocks, their threads and what each of them strides over become one loop over all of it.

before                                                  after collapse{loop=b}
    par b in 0..blocks @ [block.x]                          par i in 0..n @ [thread.x 256, block.x blocks, seq]
      par t in 0..256 @ [thread.x 256]                        atomic add count[x[i]], 1
        for i = b * 256 + t; i < n; i + blocks * 256
          atomic add count[x[i]], 1

before                                                  after collapse{loop=b}
    par b in 0..cdiv(n, 256) @ [block.x]                    par i in 0..min(n, cdiv(n, 256) * 256)
      par t in 0..256 @ [thread.x 256]                            @ [thread.x 256, block.x]
        var i: i32 = b * 256 + t                                y[i] = x[i]
        if i < n
          y[i] = x[i]

Every element keeps the thread that it has; ``distribute``, ``tile`` and ``map`` may then give it another one.

Legal where nothing else happens in the loops, where what is done to an element depends on the block and the thread
through the element alone, and where iterations of the strided loop are independent (:mod:`.parallelize` has the rule).
Indices are taken not to wrap.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.dependence import iterations_independent
from ktc.ir.analysis.order import jump, pinned, places
from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.arith.polynomial import same_value
from ktc.ir.fold import add, cast, is_const, lt, mul, simplify
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Body, Call, Const, Decl, Expr, For, If, Level, Par, Reduce, Scan, Var
from ktc.ir.types import I32, Scalar
from ktc.ir.walk import assigned, substitute, used, used_in, walk
from ktc.passes.core.argument_kinds import Loop
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.named_loops import replace_loops
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.shared.loop_bounds import upper_bound


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the loop over blocks")


class Collapse(Pass[Arguments]):
    name = "collapse"
    summary = "loops over blocks, their threads and what these stride over become one loop"
    refusals = ("E-PLACE", "E-PLACE-AMBIGUOUS", "E-COLLAPSE-NEST", "E-COLLAPSE-INDEX", "E-COLLAPSE-CARRIED")

    def sites(self, kernel: Kernel) -> list[Site]:
        """One for each nest of that kind."""
        nests = [s for s in walk(kernel.body) if isinstance(s, Par) and allowed(_whole, kernel, s)]
        return [
            Site(self.step(loop=place_of(kernel, s)), "one loop over all elements, to be spread anew") for s in nests
        ]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        loop = args.loop.find(kernel)
        if not isinstance(loop, Par):
            raise Refusal("E-COLLAPSE-NEST", f"'{args.loop}' is not a parallel loop", places(loop))
        whole = _whole(kernel, loop)
        return Result(replace_loops(kernel, [loop], lambda _: whole), (f"{whole.var.name}: all elements",))


def _whole(kernel: Kernel, blocks: Par) -> Par:
    """The one loop that ``blocks`` and what it holds are."""
    threads = next((s for s in blocks.body if isinstance(s, Par)), None)
    shape = [[lv.kind for lv in s.dist] for s in (blocks, threads) if s is not None]
    if threads is None or shape != [["block"], ["thread"]] or len(blocks.body) != 1:
        why = f"'{blocks.var.name}' is no loop over blocks that holds one over their threads, and nothing else"
        raise Refusal("E-COLLAPSE-NEST", why, places(blocks))
    bad = next((s for s in walk(threads.body) if isinstance(s, Par | Reduce | Scan | Alloc)), None) or pinned(
        threads.body
    )
    if bad is not None or not all(is_const(s.lo, 0) for s in (blocks, threads)):
        why = f"the threads of '{threads.var.name}' work together, or do not begin at 0"
        raise Refusal("E-COLLAPSE-NEST", why, places(bad, threads))
    whole = _strided(kernel, blocks, threads) or _single(blocks, threads)
    if whole is None or used_in(whole.body) & {blocks.var, threads.var}:
        why = f"'{threads.var.name}' does not go through the elements at block * threads + thread, nor stride over them"
        raise Refusal("E-COLLAPSE-INDEX", why, places(threads))
    return whole


def _levels(blocks: Par, threads: Par, *more: Level) -> tuple[Level, ...]:
    (block,), (thread,) = blocks.dist, threads.dist
    return (Level("thread", threads.hi, thread.axis), Level("block", blocks.hi if more else block.n, block.axis), *more)


def _strided(kernel: Kernel, blocks: Par, threads: Par) -> Par | None:
    """``for i = b * T + t; i < n; i += B * T``, behind names for what does not change."""
    *named, last = threads.body
    names = definitions(tuple(named))
    if not all(isinstance(s, Decl) and s.sym in names for s in named) or assigned((last,)) & names.keys():
        return None
    (loop,) = substitute((last,), {s: expand(e, names) for s, e in names.items()})
    if not isinstance(loop, For) or not isinstance(loop.var.type, Scalar):
        return None
    hi, step, t = upper_bound(loop.cond, loop.var), loop_step(loop), loop.var.type
    moving = assigned(loop.body) | {loop.var, blocks.var, threads.var}
    if hi is None or step is None or (used(hi) | used(step)) & moving or loop.var in assigned(loop.body):
        return None
    if not (same_value(loop.init, _position(blocks, threads)) and same_value(step, _all(blocks, threads))):
        return None
    all_of_them = For(loop.var, Const(0, t), lt(Var(loop.var), hi), add(Var(loop.var), Const(1, t)), loop.body)
    if jump(loop.body) is not None or not iterations_independent(all_of_them, {p.sym for p in kernel.params}):
        why = f"an iteration of '{loop.var.name}' needs what another one computes, or ends the loop"
        raise Refusal("E-COLLAPSE-CARRIED", why, places(loop))
    levels = _levels(blocks, threads, Level("seq"))
    return Par(
        loop.var, Const(0, t), cast(hi, t), levels, loop.body, loc=loop.loc, comments=loop.comments, tags=loop.tags
    )


def _single(blocks: Par, threads: Par) -> Par | None:
    """``let i = b * T + t; if i < n``."""
    at = next((s for s in threads.body if _is_position(s, blocks, threads)), None)
    if not isinstance(at, Decl) or at.sym in assigned(threads.body) or not isinstance(t := at.sym.type, Scalar):
        return None
    body: Body = tuple(s for s in threads.body if s is not at)
    end, guard = _all(blocks, threads), body[0] if len(body) == 1 else None
    hi = upper_bound(guard.cond, at.sym) if isinstance(guard, If) and not guard.orelse else None
    if (
        hi is not None
        and isinstance(guard, If)
        and not used(hi) & (assigned(guard.then) | {at.sym, blocks.var, threads.var})
    ):
        body, end = guard.then, Call("min", (cast(hi, t), cast(end, t)), t)
    if jump(body) is not None:
        return None
    levels = _levels(blocks, threads)
    return Par(
        at.sym,
        Const(0, t),
        simplify(cast(end, t)),
        levels,
        body,
        loc=threads.loc,
        tags=frozenset({f"loop:{at.sym.name}"}),
    )


def _is_position(s: object, blocks: Par, threads: Par) -> bool:
    return isinstance(s, Decl) and s.init is not None and same_value(s.init, _position(blocks, threads))


def _position(blocks: Par, threads: Par) -> Expr:
    return add(mul(_number(Var(blocks.var)), _number(threads.hi)), _number(Var(threads.var)))


def _all(blocks: Par, threads: Par) -> Expr:
    return mul(_number(blocks.hi), _number(threads.hi))


def _number(e: Expr) -> Expr:
    return cast(e, I32)
