"""Strided loops of a block or grid of threads, and the accumulators they carry.

for (i = lo + tid; i < hi; i += blockDim)                 par i in lo..hi @ [thread.x, seq]
for (i = lo + global id; i < hi; i += blockDim*gridDim)   par i in lo..hi @ [thread.x, block.x, seq]

The blocks may lie along another axis than the threads: ``blockIdx.y * blockDim.x + threadIdx.x``.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.counted_loops import loop_step
from ktc.ir.fold import cast, i32, mul, simplify
from ktc.ir.kernel import Launch
from ktc.ir.nodes import (
    Barrier,
    Expr,
    For,
    HwIndex,
    Level,
)  # fmt: skip
from ktc.ir.types import Ptr, Scalar
from ktc.ir.walk import assigned, declared, walk, walk_expr
from ktc.passes.shared.equal_integers import same
from ktc.passes.shared.loop_bounds import upper_bound

from .coordinates import AXES, depends_on_thread


@dataclass(frozen=True)
class Strided:
    """A recognised loop: its range and the distribution that reproduces its mapping."""

    lo: Expr
    hi: Expr
    dist: tuple[Level, ...]


def strided(s: For, launch: Launch, axis: str = "x") -> Strided | None:
    """``s`` as a block-stride or grid-stride loop over the threads of ``axis``, and over the blocks along any axis."""
    thread, block = HwIndex("thread", axis), HwIndex("block", _block_axis(s, axis))
    start = linear_form(s.init, {thread, block})
    step, hi = loop_step(s), upper_bound(s.cond, s.var)
    t = s.var.type
    if start is None or step is None or hi is None or not isinstance(t, Scalar):
        return None
    if not same(start.coeff(thread), i32(1)):
        return None
    if any(isinstance(x, HwIndex) for e in (start.rest, step, hi) for x in walk_expr(e)):
        return None
    threads, blocks = launch.block[AXES.index(axis)], launch.grid[AXES.index(block.axis)]
    lo = cast(simplify(start.rest), t)
    if block not in start.coeffs and same(step, threads):
        return Strided(lo, hi, (Level("thread", threads, axis), Level("seq")))
    if same(start.coeff(block), threads) and same(step, mul(threads, blocks)):
        return Strided(lo, hi, (Level("thread", threads, axis), Level("block", blocks, block.axis), Level("seq")))
    return None


def _block_axis(s: For, axis: str) -> str:
    """The axis of the grid that ``s`` begins at its block of, ``blockIdx.y * blockDim.x + threadIdx.x``: that of the
    threads where there are several or none."""
    found = {x.axis for x in walk_expr(s.init) if isinstance(x, HwIndex) and x.level == "block"}
    return found.pop() if len(found) == 1 else axis


def is_everybodys(s: For) -> bool:
    """Whether all threads of a block go through ``s`` alike and carry nothing from one iteration to the next: rows of a
    part, say, each of them spread over the threads."""
    if any(depends_on_thread(e) for e in (s.init, s.cond, s.step)) or any(isinstance(x, Barrier) for x in walk(s.body)):
        return False
    return all(isinstance(v.type, Ptr) for v in assigned(s.body) - set(declared(s.body)))


__all__ = [
    "Strided",
    "strided",
]
