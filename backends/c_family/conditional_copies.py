"""Asynchronous copies that may be skipped, for targets that copy at once: a condition around a plain copy.

before                                          after
    async_copy s[i +: 4] = a[j] if c                if c
                                                      async_copy s[i +: 4] = a[j]
                                                    else
                                                      for v in 0..4: s[i + v] = 0
"""

from __future__ import annotations

import dataclasses

from ktc.ir.fold import add, lt
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import AsyncCopy, Const, For, If, Stmt, Store, Var, VecMake, fresh, i32
from ktc.ir.types import I32, Vec, scalar_of
from ktc.ir.walk import map_body


def conditional_copies(kernel: Kernel) -> Kernel:
    """``kernel`` with every condition of an asynchronous copy as control flow."""
    return kernel.with_(body=map_body(kernel.body, _conditional))


def _conditional(s: Stmt) -> Stmt:
    if not isinstance(s, AsyncCopy) or s.valid is None:
        return s
    t = scalar_of(s.dst.type)
    zero = Const(0.0 if t.is_float else 0, t)
    copy = dataclasses.replace(s, valid=None)
    if s.width == 1:
        return If(s.valid, (copy,), (Store(s.dst, s.dst_index, zero),), loc=s.loc)
    if isinstance(s.width, int):
        blank = VecMake(Vec(t, s.width), (zero,) * s.width)
        return If(s.valid, (copy,), (Store(s.dst, s.dst_index, blank, s.width),), loc=s.loc)
    v = fresh("v", I32)
    *outer, last = s.dst_index
    fill = For(v, i32(0), lt(Var(v), s.width), add(Var(v), i32(1)), (Store(s.dst, (*outer, add(last, Var(v))), zero),),
               unroll=0)  # fmt: skip
    return If(s.valid, (copy,), (fill,), loc=s.loc)
