"""Dynamic shared memory: its arrays follow one another, so each takes a whole number of 16-byte units.

before                                              after (d not known to be a multiple of 8)
    array a: f16[d] dynamic; array b: f32[d] dynamic    array a: f16[cdiv(d, 8) * 8] dynamic; array b: ...

The next array then starts aligned for any vector access, whatever the sizes.
"""

from __future__ import annotations

from ktc.ir.fold import add, cast, cdiv, i32, mul, product
from ktc.ir.nodes import Alloc, Body, Expr, Sym, fresh
from ktc.ir.types import I32, Array, scalar_of
from ktc.ir.walk import rename, walk

from .decide import Decider

UNIT = 16


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
            t = s.sym.type
            assert isinstance(t, Array)
            size = mul(product([cast(n, I32) for n in t.shape]), i32(scalar_of(t).bytes))
            total = size if total is None else add(total, size)
    return total
