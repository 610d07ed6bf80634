"""Loops over tasks that wait for each other, in one launch: the task that ends last runs what comes after.

before (parallel form)                              after (a program of one thread a block)
    array parts: f32[8, d]                              (parts, tickets: scratch parameters)
    par part in 0..8 @ [block.x]                        ... parts[block * d + j] = f(block, j)
      par j in 0..d @ [seq]                             fence
        parts[part, j] = f(part, j)                     atomic ticket = inc tickets[0], grid_dim - 1
    par j in 0..d @ [block.x]                           if ticket == grid_dim - 1
      reduce(+) s over part in 0..8 @ [seq]               fence
        yield parts[part, j]                              for j in 0..d
      out[j] = s                                            ... out[j] = the sum of parts[... * d + j]

A task's results are written and fenced before it takes its ticket; the task with the last one fences and sees them all.
The counter wraps to zero by itself, so that the next launch finds it as this one did. What comes after the first stage
is little where a schedule makes partial results of it, and runs on one core.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from ktc.ir.fold import cast, is_const, lt
from ktc.ir.kernel import Kernel, Param
from ktc.ir.nodes import (
    Alloc,
    Atomic,
    Barrier,
    Binary,
    Body,
    Call,
    Cast,
    Const,
    Decl,
    Fence,
    HwIndex,
    If,
    Level,
    Par,
    Stmt,
    Var,
    fresh,
    i32,
)
from ktc.ir.types import I32, U32, Ptr
from ktc.ir.walk import map_body, used, walk
from ktc.passes.lowering import LoweringError, materialise
from ktc.passes.lowering.sync.stages import is_stage_barrier, staged


def in_one_launch(kernel: Kernel) -> Kernel:
    """``kernel``, whose loops over blocks are tasks of one thread, in SPMD form.

    Raises:
        LoweringError: tasks would have to wait for each other in another way.
    """
    apart = staged(kernel)
    first, rest = _stages(apart.body)
    if not rest:
        try:
            return _alone(materialise(kernel))
        except LoweringError:
            first, rest = _after_the_first(kernel.body)
            if not rest:
                raise
    begun = _alone(materialise(apart.with_(body=first)))
    ended = _alone(materialise(apart.with_(body=(*_declared(first), *map_body(rest, _in_turn)))))
    if begun.launch is None:
        raise LoweringError("E-LOWER-BLOCKS", "the first of several loops over tasks has no blocks", kernel.loc)
    tasks, launch = begun.launch.grid[0], begun.launch
    body = begun.body
    if not (isinstance(tasks, Const) and tasks.value >= 1):  # a launch without tasks would have no last one
        launch = replace(launch, grid=(Call("max", (tasks, i32(1)), I32), *launch.grid[1:]))
        body = (If(lt(cast(HwIndex("block", "x"), I32), cast(tasks, I32)), body),)
    both = [*begun.params, *(p for p in ended.params if p.sym not in {q.sym for q in begun.params})]
    on_device = {p.sym for k in (begun, ended) for p in k.params if not p.host} | used(tasks)
    params = [replace(p, host=p.host and p.sym not in on_device) for p in both]
    tickets = fresh(_unused("tickets", params), Ptr(U32, "global", restrict=True))
    params.append(Param(tickets, align=16, scratch=i32(1)))
    mine, last = fresh("ticket", U32), Binary("-", Cast(U32, HwIndex("grid_dim", "x")), Cast(U32, i32(1)))
    last_one = If(
        Binary("==", Var(mine), last), (Fence("device"), *ended.body), comments=("The task that ends last goes on.",)
    )
    take = (Fence("device"), Decl(mine, None), Atomic("inc", tickets, (i32(0),), last, dst=mine), last_one)
    return begun.with_(body=(*body, *take), params=tuple(params), launch=launch)


def _stages(body: Body) -> tuple[Body, Body]:
    """What comes before the first barrier of the grid, and what comes after it, without barriers."""
    first = tuple(itertools.takewhile(lambda s: not is_stage_barrier(s), body))
    return first, tuple(s for s in body[len(first) :] if not is_stage_barrier(s))


def _alone(kernel: Kernel) -> Kernel:
    """``kernel`` without barriers among the threads of a block, where that is one thread."""
    if kernel.launch is None or any(not is_const(n, 1) for n in kernel.launch.block):
        return kernel
    return kernel.with_(body=map_body(kernel.body, lambda s: () if _among_threads(s) else s))


def _among_threads(s: Stmt) -> bool:
    return isinstance(s, Barrier) and s.scope in ("block", "warp")


def _after_the_first(body: Body) -> tuple[Body, Body]:
    """What comes up to the first of several loops over tasks, and what comes after it."""
    tasks = [k for k, s in enumerate(body) if isinstance(s, Par) and s.dist[-1].kind == "block"]
    return (body[: tasks[0] + 1], body[tasks[0] + 1 :]) if len(tasks) > 1 else (body, ())


def _in_turn(s: Stmt) -> Stmt:
    """A loop over tasks as one loop."""
    return replace(s, dist=(Level("seq"),)) if isinstance(s, Par) else s


def _declared(first: Body) -> Body:
    """What the first stage declares beside its loops, which later ones may read."""
    return tuple(s for s in first if isinstance(s, Decl | Alloc) and not any(isinstance(x, Par) for x in walk((s,))))


def _unused(name: str, params: list[Param]) -> str:
    taken = {p.sym.name for p in params}
    return next(n for n in (name, *(f"{name}{k}" for k in range(2, 99))) if n not in taken)


__all__ = ["in_one_launch"]
