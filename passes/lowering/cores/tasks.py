"""A schedule as a CPU means it (docs/cpu.md): tasks of one thread each, and loops where they stand.

before                                              after
    par i in 0..n @ [vec 4, thread.x 64, block.x]       par i_task in 0..ceil(n / 256) @ [block.x]
      array t: shared f32[64]                             par i in i_task * 256.. + min(256, n - i_task * 256) @ [seq]
      par j in 0..d @ [thread.y 8, block.y]                 array t: local f32[64], aligned to a line of the cache
                                                            par j in 0..d @ [seq]

For languages that share out work-groups over the cores (OpenCL). The outermost loop over blocks gives the tasks, each
of as many iterations as the levels before ``block`` say; where no loop has blocks, the outermost parallel ones do. Sums
of floats are summed up in several partial results (:mod:`.lane_sums`): loops of one chain cannot be vectors.
"""

from __future__ import annotations

from dataclasses import replace

from ktc.ir.analysis.accumulators import combine
from ktc.ir.analysis.block_tiles import over_blocks, tile_of
from ktc.ir.atomic_ops import COMBINED_BY
from ktc.ir.fold import add, cast, cdiv, mul, simplify, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Assign,
    Atomic,
    Body,
    Call,
    Expr,
    For,
    Level,
    Load,
    Par,
    Reduce,
    Scan,
    Stmt,
    Store,
    Var,
    While,
    fresh,
    i32,
)
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import map_body, rename, walk, walk_expr, with_bodies
from ktc.passes.lowering.sync.stages import handed_on

from .lane_sums import in_lanes

LINE = 64
"""Bytes of a line of the cache, and of the largest vector."""

SHORT = 1024
"""Iterations of a task whose schedule does not say, where an iteration has no loop: a task costs as much as some
hundred of them."""

LOOPS = (For, Par, Reduce, Scan, While)


def as_tasks(kernel: Kernel) -> Kernel:
    """``kernel``, which is in parallel form, with blocks of one thread and loops instead of every other level."""
    kernel = handed_on(kernel)
    blocks = any(over_blocks(s) for s in walk(kernel.body))
    return kernel.with_(body=_spread(_private(kernel.body), blocks))


def _spread(body: Body, blocks: bool) -> Body:
    """``blocks``: whether some loop of the kernel has a level of blocks."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Par) and (over_blocks(s) or not blocks):
            tile = tile_of(s) if blocks else i32(1 if _has_loops(s.body) else SHORT)
            out.append(_task(replace(s, body=_loops(s.body)), tile))
        elif isinstance(s, Par) and any(over_blocks(x) for x in walk(s.body)):
            out.append(replace(s, dist=(Level("seq"),), body=_spread(s.body, blocks)))
        else:
            out += _loops((s,))
    return tuple(out)


def _task(s: Par, tile: Expr) -> Par:
    """``s`` as tasks of ``tile`` iterations each: a loop that ends where the last one does, without a test inside."""
    if tile == i32(1):
        return replace(s, dist=(Level("block", axis="x"),))
    t = s.var.type
    assert isinstance(t, Scalar)
    number, size = fresh(f"{s.var.name}_task", t), cast(tile, t)
    first = simplify(add(s.lo, mul(Var(number), size)))
    left = Call("min", (size, simplify(sub(s.hi, first))), t)
    inner = replace(s, lo=first, hi=simplify(add(first, left)), dist=(Level("seq"),), comments=())
    tasks = cdiv(simplify(sub(s.hi, cast(s.lo, t))), size)
    blocks = (Level("block", axis="x"),)
    return replace(s, var=number, lo=cast(i32(0), t), hi=tasks, dist=blocks, body=(inner,))


def _loops(body: Body) -> Body:
    """``body`` of one thread."""
    out: list[Stmt] = []
    for s in body:
        s = with_bodies(s, _loops)
        if isinstance(s, Atomic) and isinstance(s.buffer.type, Array) and s.op in COMBINED_BY:
            out += _alone(s)
            continue
        if isinstance(s, Par | Scan):
            out.append(replace(s, dist=(Level("seq"),)))
        elif isinstance(s, Reduce):
            out += in_lanes(replace(s, dist=(Level("seq"),), strategy="serial"))
        else:
            out.append(s)
    return tuple(out)


def _alone(s: Atomic) -> Body:
    """``s`` on an array of the task's own, which nobody else updates meanwhile."""
    old = Load(s.buffer, s.index)
    store = Store(s.buffer, s.index, combine(COMBINED_BY[s.op], old, s.value), loc=s.loc, comments=s.comments)
    return (store,) if s.dst is None else (Assign(s.dst, old), store)


def _private(body: Body) -> Body:
    """``body`` with arrays that the threads of a block would share as the task's own; but for those whose sizes only a
    launch knows, which it provides."""
    arrays = [
        s.sym for s in walk(body) if isinstance(s, Alloc) and isinstance(s.sym.type, Array) and _sized(s.sym.type)
    ]
    own = {a: fresh(a.name, replace(a.type, space="local")) for a in arrays}  # type: ignore[call-arg]

    now = set(own.values())

    def aligned(s: Stmt) -> Stmt:
        if isinstance(s, Alloc) and s.sym in now:
            return replace(s, align=max(s.align, LINE), dynamic=False)
        return s

    return map_body(rename(body, own), aligned)


def _sized(t: Array) -> bool:
    """Whether the text knows the extents of ``t``."""
    return not any(isinstance(x, Var) for n in t.shape for x in walk_expr(n))


def _has_loops(body: Body) -> bool:
    return any(isinstance(x, LOOPS) for x in walk(body))


__all__ = ["as_tasks"]
