"""How often a kernel does what: trip counts, operations and bytes of shared memory at fixed sizes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import cached_property

from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Atomic,
    Barrier,
    Binary,
    Call,
    Const,
    Expr,
    HwIndex,
    InlineAsm,
    Par,
    Raw,
    RawStmt,
    Reduce,
    Scan,
    Sym,
    Unary,
    WarpOp,
)
from ktc.ir.types import Array, Scalar, scalar_of
from ktc.ir.walk import map_expr, stmt_exprs, substitute_expr, used, walk_expr

from .access_nests import Axis, visits

FLOPS = {"fma": 2, "fma_rn": 2, "fma_rz": 2, "min": 1, "max": 1, "abs": 0, "isinf": 0, "isnan": 0, "isfinite": 0}
"""Floating-point operations of a call; functions not listed cost one operation of the special-function unit."""

MIDDLE = (5, 11)
"""Where the middle of a loop is taken to be, as a fraction: not at the half, where a row of a flat index ends."""


class Counts:
    """Trip counts and totals at fixed sizes."""

    def __init__(self, kernel: Kernel, env: Mapping[str, int]) -> None:
        self.kernel, self.env = kernel, env
        self.unknown: set[str] = set()

    def value(self, e: Expr | None, also: Mapping[Sym, int] | None = None) -> int | None:
        """``e`` at the sizes, and with the variables in ``also``; None if unknown."""
        if e is None:
            return None
        if also:
            e = substitute_expr(e, {s: Const(n, scalar_of(s.type)) for s, n in also.items()})
        v = evaluate(map_expr(e, self._dims), self.env)
        return None if v is None else int(v)

    def _dims(self, e: Expr) -> Expr:
        launch = self.kernel.launch
        if not isinstance(e, HwIndex) or launch is None:
            return e
        dims = {"block_dim": launch.block, "grid_dim": launch.grid}
        return dims[e.level]["xyz".index(e.axis)] if e.level in dims else Const(0, e.type)

    def trip(self, axis: Axis) -> int | None:
        """Iterations of ``axis``: none where its end lies below its beginning; None where that is not known."""
        n = self.value(axis.trip)
        return n if n is None else max(0, n)

    def typical(self, axis: Axis) -> int | None:
        """Iterations of ``axis``; where they hang on the loops around it, those in the middle of these."""
        n = self.trip(axis)
        if n is None and axis.trip is not None and used(axis.trip) & self._middles.keys():
            n = self.value(axis.trip, self._middles)
        return n if n is None else max(0, n)

    @cached_property
    def _middles(self) -> dict[Sym, int]:
        """The variables of loops about the middle of these, of inner ones in that of outer ones, as far as their ends
        are known then."""
        out: dict[Sym, int] = {}
        for v in visits(self.kernel):
            a = v.axes[-1] if v.axes else None
            if a is None or a.stmt is not v.stmt or not isinstance(a.index, Sym):
                continue
            lo = self.value(a.stmt.lo, out) if isinstance(a.stmt, Par | Reduce | Scan) else 0
            n = self.value(a.trip, out)
            if lo is not None and n is not None:
                out[a.index] = lo + max(0, n) * MIDDLE[0] // MIDDLE[1]
        return out

    def times(self, axes: tuple[Axis, ...]) -> int:
        """Iterations of all ``axes`` together, typically; unknown ones count once, and say nothing where another has
        none."""
        trips = [self.typical(a) for a in axes]
        if any(t is not None and t <= 0 for t in trips):
            return 0
        self.unknown |= {a.name for a, t in zip(axes, trips) if t is None}
        return math.prod(1 if t is None else t for t in trips)

    def extent(self, level: str) -> int | None:
        """Threads of a block, or (``level`` block) blocks of the grid."""
        if self.kernel.launch is None:
            return None
        dims = self.kernel.launch.block if level == "thread" else self.kernel.launch.grid
        values = [self.value(d) for d in dims]
        if any(v is None for v in values):
            return None
        return values[0] * values[1] * values[2]  # type: ignore[operator]

    def statements(self, kernel: Kernel) -> Counter[str]:
        """How often what costs something is executed (flops, special) or written (barriers, atomics, ...)."""
        n: Counter[str] = Counter()
        for v in visits(kernel):
            s, times = v.stmt, self.times(v.axes)
            n["reductions"] += isinstance(s, Reduce)
            n["barriers"] += isinstance(s, Barrier) and s.scope == "block"
            n["atomics"] += isinstance(s, Atomic)
            n["opaque"] += isinstance(s, RawStmt | InlineAsm)
            if isinstance(s, Reduce):
                n["flops"] += times * len(s.accs)
            n["flops"] += times if isinstance(s, Scan) else 0
            if isinstance(s, Alloc) and isinstance(s.sym.type, Array) and s.sym.type.space == "shared":
                n["shared_bytes"] += self._array_bytes(s.sym.type)
            for e in stmt_exprs(s):
                for x in walk_expr(e):
                    _operations(x, times, n)
        return n

    def _array_bytes(self, t: Array) -> int:
        total = scalar_of(t).bytes
        for extent in t.shape:
            total *= self.value(extent) or 1
        return total


def _operations(x: Expr, times: int, n: Counter[str]) -> None:
    is_float = isinstance(x.type, Scalar) and x.type.is_float
    if isinstance(x, Binary) and is_float:
        n["special" if x.op == "/" else "flops"] += times
    elif isinstance(x, Unary) and is_float:
        n["flops"] += times
    elif isinstance(x, Call):
        n[f"call:{x.fn}"] += 1
        if is_float or x.fn in FLOPS:
            n["flops" if x.fn in FLOPS else "special"] += times * FLOPS.get(x.fn, 1)
    elif isinstance(x, WarpOp):
        n["warp_ops"] += 1
    elif isinstance(x, Raw):
        n["opaque"] += 1
