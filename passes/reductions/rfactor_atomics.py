"""rfactor-atomics: the updates of each part of a loop in an array of its own, then the sums of the parts.

before                                          after rfactor-atomics{loop=i bins=256 parts=$PARTS}
    par i in 0..n @ [thread.x 256, block.x]             array count_parts: u32[$PARTS, 256]
      atomic add count[x[i]], 1                         par part in 0..$PARTS @ [block.x]
                                                          par k in 0..256 @ [seq]
                                                            count_parts[part, k] = 0
                                                          for i in part * cdiv(n, $PARTS)..min(...)
                                                            count_parts[part, x[i]] += 1
                                                        par k in 0..256 @ [seq 64, block.y]
                                                          reduce(+) total: u32 = 0 over part in 0..$PARTS @ [seq]
                                                            yield count_parts[part, k]
                                                          if total != 0
                                                            count[k] += total

What ``rfactor`` is to sums: parts are tasks of a CPU's cores, which need no atomics then. The index must be a number
below ``bins`` whatever the data are, the loop one of the kernel's outermost, and the array must not be touched in any
other way. Elements that no part updates are neither read nor written. Floating-point sums change their order.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.analysis.accumulators import combine, identity
from ktc.ir.analysis.order import jump, pinned, places
from ktc.ir.atomic_ops import COMBINED_BY
from ktc.ir.fold import add, cast, cdiv, fold_node, i32, mul, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Acc,
    AddrOf,
    Alloc,
    Atomic,
    Binary,
    Body,
    Call,
    Expr,
    For,
    If,
    Level,
    Load,
    Par,
    Reduce,
    Scan,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)
from ktc.ir.types import I32, Array, Ptr, Scalar, scalar_of
from ktc.ir.walk import all_exprs, map_body, walk, walk_expr
from ktc.passes.core.argument_kinds import Loop, Size
from ktc.passes.core.arguments import knob, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.core.script import KnobRef

from .privatize_atomics import MOST_BINS, most_of

TOGETHER = 64
"""Elements whose parts one task adds up."""


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the parallel loop whose iterations update elements that the data choose")
    bins: int = required("elements that they may choose", least=1, most=MOST_BINS)
    parts: Size = knob("PARTS", (2, 4, 8, 16, 32, 64, 128), "parts of the loop, each a task", code="E-RFACTOR-PARTS")


class RFactorAtomics(Pass[Arguments]):
    name = "rfactor-atomics"
    summary = "the updates of each part of a loop in an array of its own, then the sums of the parts"
    refusals = (
        "E-PLACE", "E-RFACTOR-PLACE", "E-RFACTOR-ATOMIC", "E-RFACTOR-USED", "E-RFACTOR-BINS", "E-RFACTOR-PARTS",
        "E-ARG-MISSING", "E-ARG-TYPE", "E-ARG-RANGE",
    )  # fmt: skip
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        outer = [s for s in kernel.body if isinstance(s, Par)] if kernel.is_parallel else []
        found = [(s, a) for s in outer for a in _atomics(s)]
        doc = "each task counts for itself"
        return [
            Site(self.step(loop=place_of(kernel, s), bins=most_of(a.index[0]) + 1, parts=KnobRef("PARTS")), doc)
            for s, a in found
            if most_of(a.index[0]) < MOST_BINS and allowed(_checked, kernel, s, MOST_BINS)
        ]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        if not kernel.is_parallel:
            raise Refusal("E-RFACTOR-PLACE", "the kernel says what each thread does", hint="run raise first")
        loop = args.loop.find(kernel)
        atomic = _checked(kernel, loop, args.bins)
        assert isinstance(loop, Par)
        kernel, parts = args.parts.declared(kernel, self.name)
        t = scalar_of(atomic.buffer.type)
        assert isinstance(t, Scalar)
        own = fresh(f"{atomic.buffer.name}_parts", Array(t, (parts, i32(args.bins)), "local"))
        new: Body = (Alloc(own), _parts(loop, atomic, own, parts, args.bins), _whole(atomic, own, parts, args.bins))
        body = map_body(kernel.body, lambda s: new if isinstance(s, Par) and s.var == loop.var else s)
        flags = kernel.flags | ({"reassociates"} if t.is_float else set())
        return Result(kernel.with_(body=body, flags=flags), (f"{atomic.buffer.name}: {args.bins} elements a part",))


def _atomics(s: Stmt) -> list[Atomic]:
    return [x for x in walk((s,)) if isinstance(x, Atomic)]


def _checked(kernel: Kernel, loop: Stmt | None, bins: int) -> Atomic:
    """The one update of ``loop``, or why it cannot be put off."""
    if not isinstance(loop, Par) or not any(s is loop for s in kernel.body):
        raise Refusal("E-RFACTOR-PLACE", "this is none of the kernel's outermost parallel loops", places(loop))
    if any(isinstance(x, Par | Reduce | Scan) for x in walk(loop.body)) or pinned(loop.body) or jump(loop.body):
        why = f"'{loop.var.name}' holds parallel loops, jumps or barriers"
        raise Refusal("E-RFACTOR-PLACE", why, places(loop), "collapse makes one loop of several")
    found = _atomics(loop)
    if len(found) != 1 or not isinstance(found[0].buffer.type, Ptr):
        raise Refusal("E-RFACTOR-ATOMIC", f"'{loop.var.name}' does not update one array by one atomic", places(loop))
    (atomic,) = found
    name = atomic.buffer.name
    if atomic.dst is not None or atomic.op not in COMBINED_BY:
        raise Refusal(
            "E-RFACTOR-USED", f"the updates of '{name}' cannot be put off: they exchange values", places(atomic)
        )
    others = [s for s in walk(kernel.body) if isinstance(s, Store | Atomic) and s.buffer == atomic.buffer]
    named = [x for e in all_exprs(kernel.body) for x in walk_expr(e) if isinstance(x, Load | AddrOf)]
    if len(others) > 1 or any(x.buffer == atomic.buffer for x in named):
        raise Refusal("E-RFACTOR-USED", f"'{name}' is read or written elsewhere in the kernel", places(atomic))
    if most_of(atomic.index[0]) >= bins:
        why = f"the data may choose an element of '{name}' beyond {bins}"
        raise Refusal(
            "E-RFACTOR-BINS", why, places(atomic), "bins is one more than the largest number of the index' type"
        )
    return atomic


def _parts(loop: Par, atomic: Atomic, own: Sym, parts: Expr, bins: int) -> Par:
    """The loop over parts: each clears its elements, then goes through its iterations one after another."""
    part, k, t = fresh("part", I32), fresh("k", I32), loop.var.type
    assert isinstance(t, Scalar) and isinstance(own.type, Array) and isinstance(own.type.elem, Scalar)
    op, elem = COMBINED_BY[atomic.op], own.type.elem
    clear = Par(k, i32(0), i32(bins), (Level("seq"),), (Store(own, (Var(part), Var(k)), identity(op, elem)),))
    length = cdiv(sub(loop.hi, cast(loop.lo, t)), cast(parts, t))
    lo = add(loop.lo, mul(cast(Var(part), t), length))
    hi = fold_node(Call("min", (add(lo, length), loop.hi), t))
    at = (Var(part), cast(atomic.index[0], I32))

    def on(s: Stmt) -> Stmt:
        if not isinstance(s, Atomic):
            return s
        value = combine(op, Load(own, at), cast(s.value, elem))
        return Store(own, at, value, loc=s.loc, comments=s.comments)

    step = add(Var(loop.var), cast(i32(1), t))
    walked = For(
        var=loop.var,
        init=lo,
        cond=Binary("<", Var(loop.var), hi),
        step=step,
        body=map_body(loop.body, on),
        loc=loop.loc,
        comments=loop.comments,
    )
    return Par(part, i32(0), parts, (Level("block", None, "x"),), (clear, walked))


def _whole(atomic: Atomic, own: Sym, parts: Expr, bins: int) -> Par:
    """The loop over elements: what all parts have of one goes to the array, if any has something."""
    part, k = fresh("part", I32), fresh("k", I32)
    assert isinstance(own.type, Array) and isinstance(own.type.elem, Scalar)
    op, elem = COMBINED_BY[atomic.op], own.type.elem
    total = fresh("total", elem)
    acc = Acc(total, op, identity(op, elem), Load(own, (Var(part), Var(k))))
    sums = Reduce((acc,), part, i32(0), parts, (Level("seq"),), ())
    value = combine(op, Load(atomic.buffer, (Var(k),)), Var(total))
    update = If(Binary("!=", Var(total), identity(op, elem)), (Store(atomic.buffer, (Var(k),), value),))
    return Par(k, i32(0), i32(bins), (Level("seq", i32(TOGETHER)), Level("block", None, "y")), (sums, update))
