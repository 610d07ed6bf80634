"""Threads that nothing is computed by: a block of 20 x 20 whose outer threads only helped to fill a tile.

par ty in 0..16 @ [thread.y 20]     ->     par ty in 0..16 @ [thread.y 16]
"""

from __future__ import annotations

import dataclasses

from ktc.ir.fold import evaluate, i32, is_const
from ktc.ir.nodes import Body, Level, Par, Reduce, Stmt
from ktc.ir.walk import map_body, walk

AXES = ("x", "y", "z")


def without_idle(body: Body) -> Body:
    """``body`` with as many threads along each axis as its widest loop there has iterations."""
    for axis in AXES:
        busy = _busy(body, axis)
        if busy is not None:
            body = map_body(body, lambda s, axis=axis, busy=busy: _narrowed(s, axis, busy))  # type: ignore[misc]
    return body


def _busy(body: Body, axis: str) -> int | None:
    """The most iterations of a loop over the threads of ``axis``, if fewer than there are threads."""
    most, threads = 0, 0
    for s in walk(body):
        levels = [lv for lv in s.dist if lv.kind == "thread" and lv.axis == axis] if isinstance(s, Par | Reduce) else []
        if not levels or not isinstance(s, Par | Reduce):
            continue
        n = None if levels[0].n is None else evaluate(levels[0].n, {})
        hi = evaluate(s.hi, {})
        if len(s.dist) != 1 or not is_const(s.lo, 0) or n is None or hi is None or not isinstance(s, Par):
            return None
        most, threads = max(most, int(hi)), int(n)
    return most if 0 < most < threads else None


def _narrowed(s: Stmt, axis: str, busy: int) -> Stmt:
    if isinstance(s, Par) and len(s.dist) == 1 and s.dist[0].kind == "thread" and s.dist[0].axis == axis:
        return dataclasses.replace(s, dist=(Level("thread", i32(busy), axis),))
    return s


__all__ = ["without_idle"]
