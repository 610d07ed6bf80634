"""Copies by the block as a whole (OpenCL's ``async_work_group_copy``) where there are none: threads copy, and meet.

before                                              after
    e = group_copy s[0] = a[j] count n                  for k = linear thread; k < n; k += threads of the block
    ...                                                     s[k] = a[j + k]
    group_wait e                                        ...
                                                        barrier

A program that keeps the rules of the asynchronous copy means the same: what it copies is not changed meanwhile, so when
each thread does its part makes no difference, and the barrier orders all parts before what follows the wait.
"""

from __future__ import annotations

from .fold import add, cast, mul
from .kernel import Kernel
from .nodes import (
    Alloc,
    Assign,
    Barrier,
    Binary,
    Body,
    Decl,
    Expr,
    For,
    GroupCopy,
    GroupWait,
    HwIndex,
    If,
    Load,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)  # fmt: skip
from .types import EVENT, U64, Array, Type
from .walk import map_body, walk


def has_group_copies(kernel: Kernel) -> bool:
    return any(isinstance(s, GroupCopy | GroupWait) or _holds_event(s) for s in walk(kernel.body))


def by_threads(kernel: Kernel) -> Kernel:
    """``kernel`` with every copy by the block as a loop of its threads, without events; itself if it has none."""
    if not has_group_copies(kernel):
        return kernel
    return kernel.with_(body=_one_barrier(map_body(kernel.body, _by_threads)))


def _by_threads(s: Stmt) -> Stmt | None:
    if isinstance(s, GroupCopy):
        return _loop(s)
    if isinstance(s, GroupWait):
        return Barrier(loc=s.loc, comments=s.comments)
    if _holds_event(s) or (isinstance(s, If) and not (s.then or s.orelse)):
        return None
    return s


def _holds_event(s: Stmt) -> bool:
    if isinstance(s, Decl | Alloc | Assign):
        return _element(s.sym.type) == EVENT
    return isinstance(s, Store) and _element(s.buffer.type) == EVENT


def _element(t: Type) -> Type:
    return t.elem if isinstance(t, Array) else t


def _loop(s: GroupCopy) -> Stmt:
    k = fresh("k", U64)
    x, y, z = (HwIndex("thread", axis) for axis in "xyz")
    bx, by, bz = (HwIndex("block_dim", axis) for axis in "xyz")
    thread = add(mul(add(mul(z, by), y), bx), x)
    threads = mul(mul(bx, by), bz)
    value = Load(s.src, _moved(s.src, s.src_index, Var(k), s))
    store = Store(s.dst, _moved(s.dst, s.dst_index, Var(k), s), value, loc=s.loc)
    step = Binary("+", Var(k), cast(threads, U64))
    return For(k, cast(thread, U64), Binary("<", Var(k), s.count), step, (store,), loc=s.loc, comments=s.comments)


def _moved(buffer: Sym, index: tuple[Expr, ...], k: Expr, s: GroupCopy) -> tuple[Expr, ...]:
    """The place of element ``k``."""
    shared = getattr(buffer.type, "space", "") == "shared"
    step = k if shared or s.stride is None else Binary("*", k, s.stride)
    return (*index[:-1], add(cast(index[-1], U64), step))


def _one_barrier(body: Body) -> Body:
    """Of barriers that follow each other, one."""
    out: list[Stmt] = []
    for s in body:
        if not (out and isinstance(s, Barrier) and s == Barrier() and out[-1] == Barrier()):
            out.append(s)
    return tuple(out)


__all__ = ["by_threads", "has_group_copies"]
