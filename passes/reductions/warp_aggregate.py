"""warp-aggregate: atomics that all iterations aim at one place become a reduction and one atomic a block.

before                                              after warp-aggregate{array=count}
    par i in 0..n @ [thread.x 256, block.x]             reduce(+) count_sum: u32 = 0 over i in 0..n @ [...]
      if x[i] > 0.0                                       yield x[i] > 0.0 ? 1 : 0
        atomic add count[0], 1                          atomic add count[0], count_sum

Lanes add up by shuffles, warps through shared memory, and one thread a block goes to memory. The atomic's old value
must not be wanted. Floating-point sums change their order.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.analysis.accumulators import identity
from ktc.ir.analysis.effects import has_effect
from ktc.ir.analysis.order import places
from ktc.ir.analysis.uniformity import THREAD_LEVELS
from ktc.ir.atomic_ops import COMBINED_BY
from ktc.ir.fold import cast
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Acc,
    Atomic,
    Body,
    Decl,
    Expr,
    If,
    Load,
    Par,
    Reduce,
    Select,
    Stmt,
    Sym,
    Var,
    fresh,
    has_bodies,
)
from ktc.ir.types import Scalar, scalar_of
from ktc.ir.walk import assigned, declared, map_body, used, walk, walk_expr
from ktc.passes.core.argument_kinds import Arrays
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.named_loops import loops, with_launch_bounds
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.shared.grid_reductions import is_last_act, spans_blocks


@dataclass(frozen=True)
class Arguments:
    array: Arrays = required("the buffer that the atomics update")


class WarpAggregate(Pass[Arguments]):
    name = "warp-aggregate"
    summary = "atomics on one place become a reduction and one atomic a block"
    refusals = ("E-AGGREGATE-NONE", "E-AGGREGATE-USED", "E-AGGREGATE-PLACE", "E-AGGREGATE-READ", "E-ARG-MISSING")
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        names = {s.buffer.name for s in walk(kernel.body) if isinstance(s, Atomic)} if kernel.is_parallel else set()
        fits = (n for n in sorted(names) if allowed(self.apply, kernel, Arguments(array=Arrays(n))))
        return [Site(self.step(array=n), "one atomic a block") for n in fits]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        name = args.array.name
        found = [(p, a) for p in loops(kernel) for a in _atomics(p) if a.buffer.name == name]
        if not found:
            raise Refusal("E-AGGREGATE-NONE", f"no loop spread over threads updates '{name}' atomically")
        loop, atomic = found[0]
        locs = places(atomic)
        if len(found) > 1:
            raise Refusal("E-AGGREGATE-NONE", f"'{name}' is updated in more than one place", locs)
        if atomic.dst is not None:
            raise Refusal("E-AGGREGATE-USED", f"what '{name}' held before is used afterwards", locs)
        if atomic.op not in COMBINED_BY:
            raise Refusal("E-AGGREGATE-USED", f"'{atomic.op}' on '{name}' cannot be done for several at once", locs)
        inside = {loop.var, *declared(loop.body)}
        if any(used(i) & inside for i in atomic.index):
            hint = "privatize-atomics gives each block a copy of the whole array"
            raise Refusal("E-AGGREGATE-PLACE", f"the iterations update different elements of '{name}'", locs, hint)
        if any(x.buffer == atomic.buffer for s in walk(kernel.body) for x in _loads(s)):
            raise Refusal("E-AGGREGATE-READ", f"'{name}' is also read in the kernel", locs)
        if any(has_effect(s) for s in loop.body if atomic not in walk((s,))) or isinstance(loop, Reduce):
            raise Refusal("E-AGGREGATE-PLACE", f"the loop over '{loop.var.name}' does more than update '{name}'", locs)
        value = _value(loop.body, atomic)
        if value is None:
            raise Refusal("E-AGGREGATE-PLACE", "the atomic stands in a loop or in the other half of an 'if'", locs)
        return _aggregated(kernel, loop, atomic, value)


def _atomics(p: Par | Reduce) -> list[Atomic]:
    """Atomics of ``p`` that no parallel loop inside it owns."""
    if not any(lv.kind in THREAD_LEVELS for lv in p.dist):
        return []
    inner = {id(a) for s in walk(p.body) if isinstance(s, Par | Reduce) for a in walk(s.body)}
    return [s for s in walk(p.body) if isinstance(s, Atomic) and id(s) not in inner]


def _loads(s: Stmt) -> list[Load]:
    from ktc.ir.walk import stmt_exprs

    return [x for e in stmt_exprs(s) for x in walk_expr(e) if isinstance(x, Load)]


def _value(body: Body, atomic: Atomic) -> Expr | None:
    """What an iteration adds, as one expression over ``body``'s top-level declarations; None where that is unclear."""
    t = scalar_of(atomic.buffer.type)
    for s in body:
        if s is atomic:
            return cast(atomic.value, t)
        if atomic in walk((s,)):
            if not isinstance(s, If) or any(atomic in walk((x,)) for x in s.orelse):
                return None
            inner = [x for x in s.then if not isinstance(x, Decl)]
            rest = _value(s.then, atomic)
            if rest is None or inner != [x for x in s.then if atomic in walk((x,))] or s.orelse:
                return None
            if any(isinstance(x, Decl) for x in s.then):
                return None  # a name that only the guarded part has
            return Select(s.cond, rest, identity(COMBINED_BY[atomic.op], t))
        if has_bodies(s) and assigned((s,)) & used(atomic.value):
            return None
    return None


def _aggregated(kernel: Kernel, loop: Par | Reduce, atomic: Atomic, value: Expr) -> Result:
    t = scalar_of(atomic.buffer.type)
    assert isinstance(t, Scalar)
    op = COMBINED_BY[atomic.op]
    total: Sym = fresh(f"{atomic.buffer.name}_{'sum' if op == '+' else atomic.op}", t)
    body = tuple(s for s in loop.body if atomic not in walk((s,)))
    acc = Acc(total, op, identity(op, t), value)
    reduce = Reduce((acc,), loop.var, loop.lo, loop.hi, loop.dist, body, loc=loop.loc, comments=loop.comments,
                    tags=loop.tags)  # fmt: skip
    once = dataclasses.replace(atomic, value=Var(total))

    def on(s: Stmt) -> Stmt | Body:
        return (reduce, once) if isinstance(s, Par) and s.var == loop.var else s

    new = kernel.with_(body=map_body(kernel.body, on))
    if spans_blocks(reduce) and not is_last_act(new.body, reduce):
        why = "more follows in the loops around it, which would have to wait for all blocks"
        raise Refusal("E-AGGREGATE-PLACE", why, places(atomic))
    new, _ = with_launch_bounds(new, [s for s in loops(new) if s.var == loop.var])
    flags = new.flags | ({"reassociates"} if t.is_float else set())
    return Result(new.with_(flags=flags), (f"{atomic.buffer.name}: one atomic a block",))
