"""Producers of neighbouring blocks that copy for each other: boxes that all blocks of a cluster want are copied once.

before (multi-buffer{by=producer cluster=2})         after
    produce s of 4                                       produce s of 4
      bulk_copy A_s[..] = A (row_tile * 128, k)            bulk_copy A_s[..] = A (row_tile * 128, k)
      bulk_copy B_s[..] = B (k, col_tile * 256)            bulk_copy B_s[..] shared 2 = B (k, col_tile * 256)

Each block copies its part of such a box to all of them, so that less is read from the L2. Whether a box is the same for
the blocks ``2 q`` and ``2 q + 1`` is derived from how its place depends on the block's number: quotients and remainders
by even numbers keep pairs together. The grid must hold whole clusters; a launcher checks what that rests on.
"""

from __future__ import annotations

import dataclasses

from ktc.ir.analysis.defs import integer_constants
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.fold import binary, cast, i32, simplify
from ktc.ir.fragments import MATRIX_ROW
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import Binary, Body, BulkCopy, Call, Cast, Const, Expr, For, HwIndex, Knob, Produce, Stmt, Var
from ktc.ir.nodes import i32 as number
from ktc.ir.types import I32
from ktc.ir.walk import map_body, walk, walk_expr
from ktc.passes.lowering.decider import Decider
from ktc.passes.lowering.errors import LoweringError

MOST = 8
"""Blocks of a cluster that every device can run (CUDA C++ Programming Guide, thread block clusters)."""


def clustered(kernel: Kernel) -> Kernel:
    """``kernel`` with the cluster that its producer asks for.

    Raises:
        LoweringError: E-LOWER-CLUSTER.
    """
    loops = [s for s in walk(kernel.body) if isinstance(s, For) and s.body and isinstance(s.body[0], Produce)]
    sizes = {s.body[0].cluster for s in loops}  # type: ignore[attr-defined]
    if not sizes - {1}:
        return kernel
    (loop,), (n,) = loops, sizes
    launch = kernel.launch
    assert launch is not None
    guard = Assume(binary("==", binary("%", cast(_tiles(launch.grid[0]), I32), i32(n)), i32(0)), "guessed")
    kernel = kernel.with_(assumptions=tuple(dict.fromkeys((*kernel.assumptions, guard))))
    same = _Neighbours(kernel, n)
    if n not in (2, 4, MOST) or not all(same.agree(e) for e in (loop.init, loop.cond, loop.step, loop.body[0].slot)):  # type: ignore[attr-defined]
        raise LoweringError("E-LOWER-CLUSTER", f"blocks of a cluster of {n} would go through other rounds", loop.loc)

    def on(s: Stmt) -> Stmt:
        if not isinstance(s, BulkCopy) or s.rows % (n * MATRIX_ROW) or not all(map(same.agree, s.origin)):
            return s
        return dataclasses.replace(s, shared=n)

    body: Body = map_body(kernel.body, on)
    if not any(isinstance(s, BulkCopy) and s.shared > 1 for s in walk(body)):
        hint = "block-swizzle with an even group, or a grid whose x walks along one matrix"
        raise LoweringError("E-LOWER-CLUSTER", f"no box is the same for {n} neighbouring blocks", loop.loc, hint=hint)
    return kernel.with_(body=body, launch=dataclasses.replace(launch, cluster=(i32(n), i32(1), i32(1))))


def _tiles(grid: Expr) -> Expr:
    """The factor of a grid ``R * C`` that must hold whole clusters: the first, which bands of tiles divide."""
    grid = without_index_casts(grid)
    return grid.a if isinstance(grid, Binary) and grid.op == "*" else grid


class _Neighbours:
    """How a value differs between the blocks n q + t, 0 <= t < n, of one cluster."""

    def __init__(self, kernel: Kernel, n: int) -> None:
        self.n, self.decide = number(n), Decider(kernel)
        self.definitions = integer_constants(kernel.body)

    def agree(self, e: Expr) -> bool:
        return self.step(e) == 0

    def step(self, e: Expr) -> int | None:
        """0: ``e`` is the same for all of them; 1: it is a multiple of n, plus t; None: something else."""
        e = without_index_casts(e)
        if isinstance(e, HwIndex):
            return 1 if (e.level, e.axis) == ("block", "x") else 0 if e.level != "thread" else None
        if isinstance(e, Var):
            return self.step(self.definitions[e.sym]) if e.sym in self.definitions else 0
        if isinstance(e, Const | Knob):
            return 0
        if isinstance(e, Call) and e.effects == "pure":
            return 0 if all(self.agree(a) for a in e.args) else None
        if not isinstance(e, Binary):
            return 0 if not any(isinstance(x, Var | HwIndex) for x in walk_expr(e)) else None
        a, b = self.step(e.a), self.step(e.b)
        if (a, b) == (0, 0):
            return 0
        if (a, b) == (1, 0) and e.op in "/%" and self._whole(e.b):
            return 0 if e.op == "/" else 1
        if e.op == "+" and {a, b} == {0, 1} and self._whole(e.b if a else e.a):
            return 1
        return None

    def _whole(self, e: Expr) -> bool:
        """Whether n divides ``e``."""
        e = simplify(self._plain(e))
        return self.decide.divisible(e, self.n)

    def _plain(self, e: Expr) -> Expr:
        e = without_index_casts(e)
        if isinstance(e, Var) and e.sym in self.definitions:
            return self._plain(self.definitions[e.sym])
        if isinstance(e, Binary):
            return dataclasses.replace(e, a=self._plain(e.a), b=self._plain(e.b))
        if isinstance(e, Call):
            return dataclasses.replace(e, args=tuple(self._plain(a) for a in e.args))
        return e


__all__ = ["Cast", "clustered"]
