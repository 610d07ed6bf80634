"""privatize-atomics: each block counts in shared memory, in several copies, and adds its counts to the array once.

before                                              after privatize-atomics{array=count bins=256 copies=$C}
    par t in 0..tiles @ [block.x]                       par t in 0..tiles @ [block.x]
      par i in the tile @ [vec 16, thread.x 256, seq]     array own: shared u32[256, $C]
        atomic add count[x[i]], 1                         par k in 0..256 * $C @ [thread.x 256, seq]
                                                            own[k / $C, k % $C] = 0
                                                          par i in the tile @ [vec 16, thread.x 256, seq]
                                                            atomic add own[x[i], i / 16 % $C], 1
                                                          par k in 0..256 @ [thread.x 256, seq]
                                                            let sum = own[k, k % $C] + own[k, (k + 1) % $C] + ...
                                                            if sum != 0
                                                              atomic add count[k], sum

Neighbouring lanes use different copies. Copies of an element lie side by side, so that with 32 of them each lane of a
warp has a bank of its own, whatever elements the warp updates; the final sums start at different copies for the same
reason. Elements from ``bins`` on go to the array directly, so any ``bins`` is right. The operation must be associative
and commutative, and its old value not wanted; floating-point sums change their order.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.analysis.accumulators import combine, identity
from ktc.ir.analysis.order import places
from ktc.ir.atomic_ops import COMBINED_BY
from ktc.ir.fold import add, cast, fold_node, i32, mul
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Binary,
    Body,
    Cast,
    Decl,
    Expr,
    For,
    If,
    Level,
    Load,
    Par,
    Reduce,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)
from ktc.ir.types import I32, U32, Array, Ptr, Scalar, scalar_of
from ktc.ir.walk import map_body, stmt_exprs, walk, walk_expr
from ktc.passes.core.argument_kinds import Arrays, Size
from ktc.passes.core.arguments import knob, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.core.script import KnobRef

MOST_BINS = 8192
"""Elements that a block's shared memory holds."""


@dataclass(frozen=True)
class Arguments:
    array: Arrays = required("the buffer that the atomics update")
    bins: int = required("how many of its elements a block keeps", least=1, most=MOST_BINS)
    copies: Size = knob("C", (1, 2, 4, 8, 16, 32), "copies a block", wish=4)


class PrivatizeAtomics(Pass[Arguments]):
    name = "privatize-atomics"
    summary = "each block counts in copies of its own and adds them to the array once"
    refusals = ("E-PRIVATIZE-NONE", "E-PRIVATIZE-USED", "E-PRIVATIZE-READ", "E-PRIVATIZE-PLACE", "E-ARG-MISSING",
                "E-ARG-TYPE", "E-ARG-RANGE")  # fmt: skip
    flags = ("reassociates",)

    def sites(self, kernel: Kernel) -> list[Site]:
        """One for each array whose atomics stand right: the whole range of a byte, where that is the index."""
        names = {s.buffer.name for s in walk(kernel.body) if isinstance(s, Atomic)} if kernel.is_parallel else set()
        fits = (n for n in sorted(names) if allowed(_place, kernel, n))
        doc = "contention stays in the block"
        return [Site(self.step(array=n, bins=256, copies=KnobRef("C")), doc) for n in fits]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        place = _place(kernel, args.array.name)
        kernel, copies = args.copies.declared(kernel, self.name)
        return _privatized(kernel, place, args.bins, copies)


@dataclass(frozen=True)
class Place:
    """``block``: the loop over blocks; ``loop``: that over its threads; ``threads``: its level."""

    block: Par
    loop: Par
    atomic: Atomic
    threads: Level


def _place(kernel: Kernel, name: str) -> Place:
    atomics = [s for s in walk(kernel.body) if isinstance(s, Atomic) and s.buffer.name == name]
    if not atomics:
        raise Refusal("E-PRIVATIZE-NONE", f"nothing updates '{name}' atomically")
    atomic = atomics[0]
    locs = places(atomic)
    if len(atomics) > 1 or not isinstance(atomic.buffer.type, Ptr):
        raise Refusal("E-PRIVATIZE-NONE", f"'{name}' is not an array that one statement updates", locs)
    if atomic.dst is not None or atomic.op not in COMBINED_BY:
        raise Refusal("E-PRIVATIZE-USED", f"the updates of '{name}' cannot be put off: they exchange values", locs)
    if _touched(kernel.body, atomic.buffer, atomic):
        raise Refusal("E-PRIVATIZE-READ", f"'{name}' is read or written elsewhere in the kernel", locs)
    for block in (s for s in walk(kernel.body) if isinstance(s, Par) and _only_blocks(s)):
        for loop in (s for s in block.body if isinstance(s, Par) and any(x is atomic for x in walk(s.body))):
            threads = [lv for lv in loop.dist if lv.kind == "thread"]
            nested = any(isinstance(x, Par | Reduce) for x in walk(loop.body))
            if len(threads) == 1 and not nested and not any(lv.kind in ("block", "lane", "warp") for lv in loop.dist):
                return Place(block, loop, atomic, threads[0])
    why = f"the updates of '{name}' do not stand in a loop over one block's threads inside a loop over blocks"
    raise Refusal("E-PRIVATIZE-PLACE", why, locs, "tile the loop first: its tiles are the blocks' shares")


def _only_blocks(s: Par) -> bool:
    return bool(s.dist) and all(lv.kind in ("block", "seq") for lv in s.dist) and s.dist[0].kind == "block"


def _touched(body: Body, buffer: Sym, atomic: Atomic) -> bool:
    for s in walk(body):
        if isinstance(s, Store) and s.buffer == buffer:
            return True
        if any(isinstance(x, Load) and x.buffer == buffer for e in stmt_exprs(s) for x in walk_expr(e)):
            return True
    return False


def _privatized(kernel: Kernel, p: Place, bins: int, copies: Expr) -> Result:
    t = scalar_of(p.atomic.buffer.type)
    assert isinstance(t, Scalar)
    op = COMBINED_BY[p.atomic.op]
    own = fresh(f"{p.atomic.buffer.name}_own", Array(t, (i32(bins), copies), "shared"))
    dist = (p.threads, Level("seq"))
    neutral = identity(op, t)
    k, m, c, total = fresh("k", I32), fresh("k", I32), fresh("c", I32), fresh("total", t)
    cell = (fold_node(Binary("/", Var(k), copies)), fold_node(Binary("%", Var(k), copies)))
    clear = Par(k, i32(0), mul(i32(bins), copies), dist, (Store(own, cell, neutral),))
    turned = fold_node(Binary("%", add(Var(m), Var(c)), copies))
    merge: Body = (
        Decl(total, neutral),
        For(
            c, i32(0), Binary("<", Var(c), copies), add(Var(c), i32(1)),
            (Assign(total, combine(op, Var(total), Load(own, (Var(m), turned)))),),
        ),
        If(Binary("!=", Var(total), neutral), (Atomic(p.atomic.op, p.atomic.buffer, (Var(m),), Var(total)),)),
    )  # fmt: skip
    flush = Par(m, i32(0), i32(bins), dist, merge, comments=("The block's counts, once.",))
    vector = fold_node(Binary("/", cast(Var(p.loop.var), U32, "static"), cast(_lanes(p.loop), U32)))
    mine = fold_node(Binary("%", vector, cast(copies, U32)))

    def on(s: Stmt) -> Stmt | Body:
        if s is p.atomic or (isinstance(s, Atomic) and s.buffer == p.atomic.buffer):
            return _update(s, own, mine, bins, neutral)  # type: ignore[arg-type]
        if isinstance(s, Par) and s.var == p.loop.var:
            return (Alloc(own), clear, s, flush)
        return s

    body = map_body(kernel.body, on)
    flags = kernel.flags | ({"reassociates"} if t.is_float else set())
    return Result(kernel.with_(body=body, flags=flags), (f"{p.atomic.buffer.name}: {bins} elements a block",))


def _lanes(loop: Par) -> Expr:
    """Consecutive iterations of one thread: they share a copy."""
    return next((lv.n for lv in loop.dist if lv.kind == "vec" and lv.n is not None), i32(1))


def _update(s: Atomic, own: Sym, mine: Expr, bins: int, neutral: Expr) -> Body:
    index = s.index[0]
    local = Atomic(s.op, own, (cast(index, I32), mine), s.value, loc=s.loc, comments=s.comments)
    if most_of(index) < bins:
        return (local,)
    inside = Binary("<", cast(index, U32), cast(i32(bins), U32))
    return (If(inside, (local,), (s,), loc=s.loc),)


def most_of(index: Expr) -> int:
    """The largest value the index can have, by its narrowest unsigned type."""
    e, most = index, 1 << 62
    while True:
        t = e.type
        if isinstance(t, Scalar) and t.is_int and not t.is_signed:
            most = min(most, (1 << t.bits) - 1)
        if not isinstance(e, Cast):
            return most
        e = e.x
