"""Blocks whose extents a workload gives as numbers, where the host passes them: ``block(bx, by)`` launched as 32 by 8.

A source that is written for one shape of a block computes something else with others: its tiles go by so many rows, and
its sums are over so many threads. What is raised for that shape assumes it, and a launcher tests it.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass

from ktc.ir.fold import both, simplify
from ktc.ir.kernel import Assume, Kernel, Launch
from ktc.ir.nodes import Binary, Const, Expr, Sym, Var
from ktc.ir.types import Scalar
from ktc.ir.walk import substitute_expr, used, used_in


@dataclass(frozen=True)
class StatedBlock:
    """A ``kernel`` for launches in blocks of numbers, and what such a ``launch`` takes for granted."""

    kernel: Kernel
    launch: Launch
    fact: Assume
    what: str


def in_stated_block(kernel: Kernel, launch: Launch) -> StatedBlock | None:
    """``kernel`` for launches in blocks of the numbers that its workload gives for parameters of the host; None where
    it does not give all of them, or the kernel itself is passed one."""
    chosen = sorted({s for e in launch.block for s in used(e)}, key=lambda s: s.name)
    numbers, host = dict(launch.given), {p.sym for p in kernel.params if p.host} - used_in(kernel.body)
    to: dict[Sym, Expr] = {}
    for s in chosen:
        n = numbers.get(s.name) if s in host else None
        if not isinstance(n, int) or not isinstance(s.type, Scalar):
            return None
        to[s] = Const(n, s.type)
    if not to:
        return None

    def at(e: Expr) -> Expr:
        return simplify(substitute_expr(e, to))

    gx, gy, gz, x, y, z = map(at, (*launch.grid, *launch.block))
    shared = None if launch.dynamic_shared is None else at(launch.dynamic_shared)
    there = dataclasses.replace(launch, grid=(gx, gy, gz), block=(x, y, z), dynamic_shared=shared)
    assumed = functools.reduce(both, (Binary("==", Var(s), n) for s, n in to.items()), None)
    assert assumed is not None
    what = " and ".join(f"'{s.name}' is {numbers[s.name]}" for s in to)
    return StatedBlock(kernel.with_(launch=there), there, Assume(assumed, "guessed"), what)


__all__ = ["StatedBlock", "in_stated_block"]
