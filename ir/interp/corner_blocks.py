"""Some blocks of a launch in the place of all: the first, the middle and the last ones of each axis of the grid.

Each runs as it would among all others, which tells of a launch that is too large to interpret how far it reaches and
whether it does anything.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from ktc.ir.interp.execution.run_state import Geometry
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Const, Expr, HwIndex, Select, i32
from ktc.ir.types import U32
from ktc.ir.walk import keep, map_body

Place = tuple[int, ...]
"""A block's index by axis: x, y, z."""


def corners(g: Geometry) -> list[Place]:
    """The blocks that are looked at, in the order in which :func:`some_blocks` numbers them."""
    return [at[::-1] for at in itertools.product(*(_chosen(n) for n in reversed(g.grid)))]


def some_blocks(kernel: Kernel, g: Geometry) -> Kernel:
    """``kernel`` in SPMD form, launched as the blocks of :func:`corners` alone, each of which is told that it is one of
    the grid of ``g``."""

    def told(e: Expr) -> Expr:
        if not isinstance(e, HwIndex) or e.level not in ("block", "grid_dim"):
            return e
        extent = g.grid["xyz".index(e.axis)]
        return Const(extent, U32) if e.level == "grid_dim" else _one_of(_chosen(extent), e)

    assert kernel.launch is not None
    (x, y, z), (bx, by, bz) = (map(i32, n) for n in ((len(_chosen(n)) for n in g.grid), g.block))
    launch = dataclasses.replace(kernel.launch, grid=(x, y, z), block=(bx, by, bz))
    return kernel.with_(body=map_body(kernel.body, keep, told), launch=launch)


def _chosen(extent: int) -> list[int]:
    return sorted({0, extent // 2, extent - 1})


def _one_of(values: Sequence[int], index: Expr) -> Expr:
    """The element of ``values`` at ``index``."""
    *others, value = (Const(n, U32) for n in values)
    chosen: Expr = value
    for i, n in enumerate(others):
        chosen = Select(Binary("==", index, Const(i, U32)), n, chosen)
    return chosen


__all__ = ["Place", "corners", "some_blocks"]
