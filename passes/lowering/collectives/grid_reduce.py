"""A reduction whose parts lie in several blocks: by one atomic a block, or by the last block that arrives.

    reduce(+) s over i in 0..n @ [thread.x 256, block.x $B, seq]
    out[0] = f(s)

*Atomic*, where all that follows is ``atomic op buffer[...], s`` with the reduction's own operation: each block applies
its part. Floating-point sums would then depend on the blocks' order, so they need ``strategy atomic`` for it.
*Ticket*, for anything else:

    partials[block] = s                     # one element a block and result
    fence; barrier
    first thread: last = (ticket++ == blocks - 1); if last: fence
    barrier
    if last:                                # exactly one block, after all others have fenced
        s = sum of partials; out[0] = f(s)  # what follows the reduction runs here, once

Why it is right (the pattern of CUDA's ``threadFenceReduction``, spelt out to release and acquire): a block's partial
results are written and fenced before its barrier, and its ticket is taken after it; the thread that takes the last
ticket and fences sees all of them, and by the barrier after that fence so do the threads that read them. They are read
past the caches of the compute unit: no fence empties AMD's scalar cache. The ticket wraps to zero by itself
(``atomicInc``), so that the next launch finds the scratch memory as this one did. Results do not depend on the order of
the blocks.

Nothing may stand between this reduction and the end of the kernel, in the loops around it, that every block would do.
What an iteration leaves in memory beside its results is there for what follows, which reads it like the parts. Arrays
are memory of all blocks where the kernel declares them outside its loops (``sync.stages``); others, and variables, are
each block's own, of which the last one has its own part alone: reading them is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Protocol

from ktc.ir.analysis.accumulators import identity, together
from ktc.ir.analysis.dependence import may_alias, noalias
from ktc.ir.atomic_ops import COMBINED_BY
from ktc.ir.fold import add, cast, i32, mul, product, simplify, sub
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Binary,
    Body,
    Decl,
    Expr,
    Fence,
    For,
    HwIndex,
    If,
    Load,
    Reduce,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)
from ktc.ir.storage import is_private
from ktc.ir.types import I32, U32, Array, Ptr, Scalar
from ktc.ir.walk import assigned, declared, keep, map_body, used_in, walk_expr
from ktc.passes.lowering.distribution.hardware import on_host
from ktc.passes.lowering.distribution.levels import HwTerm, Jam, plan
from ktc.passes.lowering.distribution.scope import Scope, first_thread, nest
from ktc.passes.lowering.errors import LoweringError
from ktc.passes.lowering.lowering_state import State
from ktc.passes.shared.grid_reductions import _uses_blocks, is_last_act

from .contributions import with_start
from .reduction import Group, across_threads, merge_named

AXES = "xyz"


def lower_grid_reduce(
    s: Reduce, rest: Body, scope: Scope, st: State, lower: Callable[[Body, Scope], Body], partial: Body
) -> Body:
    """``s`` and all that follows it in its list. ``partial`` is the block's own part, left in the accumulators.

    Raises:
        LoweringError: E-LOWER-REDUCE-BLOCK.
    """
    _check_place(s, rest, scope, st)
    rest = _past_caches(s, rest, st)
    terms = plan(s, st.decide.value).hw
    inside = scope.inside(in_par=True, blocks=scope.blocks | {h.axis for h in terms if h.level == "block"})
    if _by_atomics(s, rest):
        return (*partial, *lower(rest, inside))
    threads = [h for h in terms if h.level == "thread"]
    block = next(h for h in terms if h.level == "block")
    blocks = cast(HwIndex("grid_dim", block.axis), I32)
    others = [a for a in AXES if a in st.grid and a != block.axis]
    group_of_blocks = _linear([(cast(HwIndex("block", a), I32), cast(HwIndex("grid_dim", a), I32)) for a in others])
    front: list[Stmt] = []
    writes: list[Stmt] = []
    reads: list[Stmt] = []
    groups = together(s.accs)
    for group in groups:
        slots = [_Slots(a.sym, scope, st, block.axis, others, group_of_blocks) for a in group]
        dims = slots[0].dims
        for a, x in zip(group, slots):
            t = a.sym.type
            assert isinstance(t, Scalar)
            store = Store(x.buffer, (x.at(cast(HwIndex("block", block.axis), I32)),), Var(a.sym))
            writes += nest(dims, (), st.rewrite((store,)))
            reads += nest(dims, (), st.rewrite((Assign(a.sym, identity(a.op, t)),)))
        reads.append(_gather(slots, group, threads, blocks, st))
        for h in threads:
            assert h.n is not None
            allocs, code = across_threads(s, group, h.axis, h.n, st, len(groups) > 1, dims)
            front += allocs
            reads += code
        reads += with_start(group[0], dims, scope, st)
    if any(isinstance(x, Load) and not is_private(x.buffer) for a in s.accs for x in walk_expr(a.init)):
        reads.append(Barrier())  # all threads have read it before one of them stores what comes of it
    first = first_thread(st.thread_axes - scope.axes)  # the reduction's own, and those that have no part in it
    if first is not None:
        writes = [If(first, tuple(writes))]
    last, arrive = _ticket(st, others, group_of_blocks, blocks)
    final = If(
        Binary("!=", Load(last, (i32(0),)), i32(0)), (*reads, *lower(rest, inside)), loc=s.loc,
        comments=("The last block to arrive combines the parts of all.",),
    )  # fmt: skip
    return (Alloc(last), *front, *partial, *writes, Fence("device"), Barrier(), *arrive, Barrier(), final)


def _check_place(s: Reduce, rest: Body, scope: Scope, st: State) -> None:
    def no(why: str, hint: str = "") -> LoweringError:
        return LoweringError("E-LOWER-REDUCE-BLOCK", f"a reduction over blocks {why}", s.loc, hint)

    if scope.repeats:
        raise no("cannot stand in a loop that runs again", "give the loop around it a block level of its own")
    if _uses_blocks(rest):
        raise no("is followed by work for several blocks, which would have to wait for it", "split the kernel")
    if not is_last_act(st.kernel.body, s):
        raise no("must be the last thing its block does: what is beside it would run in every block")
    kept = assigned(s.body) - set(declared(s.body))
    left = next((v for v in sorted(kept & used_in(rest), key=lambda v: v.id) if not isinstance(v.type, Ptr)), None)
    if left is not None:
        hint = "declare it outside the kernel's loops, with a place for each block"
        raise no(f"leaves '{left.name}' to what follows, in a block that has its own part of it alone", hint)


def _past_caches(s: Reduce, rest: Body, st: State) -> Body:
    """``rest`` reading what other blocks wrote in ``s`` where they wrote it, in words: less cannot be on all targets.

    Raises:
        LoweringError: E-LOWER-REDUCE-BLOCK.
    """
    apart = noalias(st.kernel)
    written = [b for b in assigned(s.body) if isinstance(b.type, Ptr)]

    def on(e: Expr) -> Expr:
        if not isinstance(e, Load) or not any(may_alias(e.buffer, b, apart) for b in written):
            return e
        t = e.buffer.type.elem if isinstance(e.buffer.type, Ptr) else None
        if not isinstance(t, Scalar) or t.bits not in (32, 64):
            why = f"leaves '{e.buffer.name}' to what follows, whose elements are not read past the caches"
            raise LoweringError("E-LOWER-REDUCE-BLOCK", f"a reduction over blocks {why}", s.loc, "keep them in float")
        return dataclasses.replace(e, cache="cg")

    return map_body(rest, keep, on) if written else rest


def _by_atomics(s: Reduce, rest: Body) -> bool:
    ordered = any(getattr(a.sym.type, "is_float", False) and a.op in "+*" for a in s.accs)
    if s.strategy == "ticket" or (ordered and s.strategy != "atomic"):
        return False
    return _only_atomics(s, rest)


def _only_atomics(s: Reduce, rest: Body) -> bool:
    """Whether ``rest`` does nothing but apply each result to memory by the reduction's own operation."""
    left = {a.sym: a for a in s.accs}
    for x in rest:
        if not (isinstance(x, Atomic) and isinstance(x.value, Var) and x.dst is None):
            return False
        a = left.pop(x.value.sym, None)
        if a is None or COMBINED_BY.get(x.op) != a.op or simplify(a.init) != identity(a.op, a.sym.type):  # type: ignore[arg-type]
            return False
    return not left


class _Slots:
    """Where the parts of one accumulator lie: [block][group of blocks][thread][jam], all in one scratch buffer."""

    def __init__(self, acc: Sym, scope: Scope, st: State, axis: str, others: list[str], group: Expr) -> None:
        here = frozenset(j.var for j in scope.jams)
        self.acc, self.axis, self.group = acc, axis, group
        self.dims: tuple[Jam, ...] = scope.ordered(st.variation.of_sym.get(acc, frozenset()) & here)
        self.threads = [(a, st.extents[a]) for a in sorted(scope.axes) if a in st.extents]
        self.others = others
        groups = [st.grid[a] for a in others]
        rest = [n for _, n in self.threads] + [j.extent for j in self.dims]
        self.buffer = scratch(st, f"{acc.name}_parts", acc.type, product([st.grid[axis], *groups, *rest]))  # type: ignore[arg-type]

    def at(self, block: Expr) -> Expr:
        pairs: list[tuple[Expr, Expr]] = [(block, i32(0))]
        pairs += [(cast(HwIndex("block", a), I32), cast(HwIndex("grid_dim", a), I32)) for a in self.others]
        pairs += [(cast(HwIndex("thread", a), I32), cast(n, I32)) for a, n in self.threads]
        pairs += [(Var(j.var), cast(j.extent, I32)) for j in self.dims]
        return _linear(pairs)


def _linear(pairs: list[tuple[Expr, Expr]]) -> Expr:
    """Row-major position of (index, extent) pairs, slowest first."""
    out: Expr = i32(0)
    for index, extent in pairs:
        out = add(mul(out, extent), index)
    return simplify(out)


class Wanting(Protocol):
    """Whoever lowers a kernel, as far as it collects the scratch memory that the kernel needs."""

    @property
    def kernel(self) -> Kernel: ...

    @property
    def scratch(self) -> list[Param]: ...


def scratch(st: Wanting, name: str, t: Scalar, count: Expr) -> Sym:
    """A scratch parameter of ``count`` elements, under a name that no other parameter has."""
    taken = {p.sym.name for p in (*st.kernel.params, *st.scratch)}
    unique = next(n for n in (name, *(f"{name}{k}" for k in range(2, 99))) if n not in taken)
    sym = fresh(unique, Ptr(t, "global", restrict=True))
    st.scratch.append(Param(sym, align=16, scratch=simplify(count)))
    return sym


def _gather(slots: list[_Slots], group: Group, threads: list[HwTerm], blocks: Expr, st: State) -> Stmt:
    """Each thread of the reduction's first axis combines every n-th block's part; other axes add nothing."""
    k = fresh("part", I32)
    start: Expr = i32(0)
    step: Expr = i32(1)
    if threads:
        assert threads[0].n is not None
        start, step = cast(HwIndex("thread", threads[0].axis), I32), cast(threads[0].n, I32)
    parts = [Load(x.buffer, (x.at(Var(k)),), cache="cg") for x in slots]
    body = nest(slots[0].dims, (), st.rewrite(merge_named(group, parts)))
    loop = For(k, start, Binary("<", Var(k), blocks), add(Var(k), step), tuple(body))
    only = first_thread(frozenset(h.axis for h in threads[1:]))
    return loop if only is None else If(only, (loop,))


def _ticket(st: State, others: list[str], group: Expr, blocks: Expr) -> tuple[Sym, Body]:
    """(shared flag, code): the block's first thread takes a ticket; the flag says whether it was the last one."""
    tickets = scratch(st, "tickets", U32, product([st.grid[a] for a in others]) if others else i32(1))
    last = fresh("last", Array(I32, (i32(1),), "shared"))
    mine = fresh("ticket", U32)
    highest = cast(sub(blocks, i32(1)), U32)
    take = (
        Decl(mine, None),
        Atomic("inc", tickets, (group,), highest, dst=mine),
        Store(last, (i32(0),), cast(Binary("==", Var(mine), highest), I32)),
        If(Binary("==", Var(mine), highest), (Fence("device"),)),
    )
    everyone = first_thread(frozenset(st.extents))
    return last, ((If(everyone, take),) if everyone is not None else take)


def with_scratch(kernel: Kernel, st: State) -> Kernel:
    """``kernel`` with the scratch parameters that lowering asked for, sized as the host knows it; host values in their
    sizes stay host values."""
    asked = (dataclasses.replace(p, scratch=p.scratch and on_host(p.scratch, st)) for p in st.scratch)
    return kernel.with_(params=(*kernel.params, *asked)) if st.scratch else kernel


__all__ = ["lower_grid_reduce", "scratch", "with_scratch"]
