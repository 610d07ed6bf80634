"""Dynamic shared memory: its arrays follow one another, so each takes a whole number of 16-byte units.

before                                              after (d not known to be a multiple of 8)
    array a: f16[d] dynamic; array b: f32[d] dynamic    array a: f16[cdiv(d, 8) * 8] dynamic; array b: ...

The next array then starts aligned for any vector access, whatever the sizes. A kernel whose arrays together pass what a
block may declare statically asks the launch for all of them; what is as large as an argument says is the launch's, too.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.fold import add, cast, cdiv, i32, mul, product, simplify
from ktc.ir.nodes import Alloc, Body, Expr, Stmt, Sym, fresh
from ktc.ir.types import I32, Array, Vec, scalar_of
from ktc.ir.walk import map_body, rename, used, walk

from .decider import Decider

UNIT = 16

STATIC_LIMIT = 48 * 1024
"""Bytes of static shared memory of a block; more is the launch's to give (CUDA C++ Programming Guide)."""


def beyond_static(body: Body, decide: Decider) -> Body:
    """``body`` with its shared arrays dynamic when their known sizes exceed the static limit, and those dynamic whose
    sizes are arguments'."""
    arrays = [s for s in walk(body) if isinstance(s, Alloc) and _is_shared(s)]
    sizes = [decide.value(_bytes(s.sym)) for s in arrays]
    large = None not in sizes and sum(n for n in sizes if n is not None) > STATIC_LIMIT
    moved = {s.sym for s in arrays if large or used(_bytes(s.sym))}

    def on(s: Stmt) -> Stmt:
        return dataclasses.replace(s, dynamic=True) if isinstance(s, Alloc) and s.sym in moved else s

    return map_body(body, on) if moved else body


def _is_shared(s: Alloc) -> bool:
    return isinstance(s.sym.type, Array) and s.sym.type.space == "shared"


def _bytes(s: Sym) -> Expr:
    t = s.type
    assert isinstance(t, Array)
    lanes = i32(t.elem.n) if isinstance(t.elem, Vec) and isinstance(t.elem.n, int) else i32(1)
    return product([*(cast(n, I32) for n in t.shape), lanes, i32(scalar_of(t).bytes)])


def aligned_arrays(body: Body, decide: Decider) -> Body:
    """``body`` with the dynamic arrays that another one follows padded to whole units, where they may not be."""
    dynamic = [s.sym for s in walk(body) if isinstance(s, Alloc) and s.dynamic]
    padded: dict[Sym, Sym] = {}
    for sym in dynamic[:-1]:
        t = sym.type
        assert isinstance(t, Array)
        per_unit = i32(UNIT // scalar_of(t).bytes)
        if len(t.shape) == 1 and not decide.divisible(t.shape[0], per_unit):
            n = mul(cdiv(cast(t.shape[0], I32), per_unit), per_unit)
            padded[sym] = fresh(sym.name, Array(t.elem, (n,), t.space))
    return rename(body, padded) if padded else body


def dynamic_bytes(body: Body) -> Expr | None:
    """Bytes of dynamic shared memory, the sum over dynamic allocations; None without any."""
    total: Expr | None = None
    for s in walk(body):
        if isinstance(s, Alloc) and s.dynamic:
            size = simplify(_bytes(s.sym))
            total = size if total is None else add(total, size)
    return total
