"""What blocks would have to wait for: a launch cannot make them, so such distributions are refused.

    par i in 0..n @ [thread.x 256, block.y]      # blocks of axis y each do their part
      a[row + i] = f(i)
    out[row] = a[row + n - 1]                    # a block would read what another one writes

Where a loop inside is spread over an axis of blocks, all blocks of that axis run what stands beside it. What they
compute for themselves there is computed by each; what others see, block 0 does (:meth:`State.owner_guard`). That is
sound unless an element that one block writes is touched by another: in another statement of the list, or in another
round of a serial loop around it. Statements under the same loops over blocks agree where the same iterations touch it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ktc.ir.analysis.dependence import conflict
from ktc.ir.analysis.effects import has_effect
from ktc.ir.analysis.touches import Touch, touches
from ktc.ir.diagnostics import Loc
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, For, Par, Reduce, Scan, Stmt, Sym, While, bodies, has_bodies
from ktc.ir.types import Ptr
from ktc.ir.walk import walk
from ktc.passes.lowering.errors import LoweringError
from ktc.passes.lowering.sync.stages import is_stage_barrier

Spread = Par | Reduce | Scan


def block_axes(s: Stmt) -> frozenset[str]:
    """The axes of blocks that the loop ``s`` is spread over."""
    return frozenset(lv.axis or "x" for lv in s.dist if lv.kind == "block") if isinstance(s, Spread) else frozenset()


def check_blocks(kernel: Kernel) -> None:
    """Refuse a kernel whose blocks touch what others write.

    Raises:
        LoweringError: E-LOWER-BLOCKS.
    """
    every = frozenset[str]().union(*(block_axes(s) for s in walk(kernel.body)))
    for _, stage in itertools.groupby(kernel.body, is_stage_barrier):
        _check(tuple(stage), every, every)


def _check(body: Body, idle: frozenset[str], every: frozenset[str]) -> None:
    """``idle``: the axes that no loop around ``body`` is spread over."""
    if not idle:
        return
    shared = any(block_axes(x) for x in walk(body))
    if shared or idle == every:  # beside no loop over blocks there is nothing that several blocks do
        _compare(body, touches(body), idle, None)
    for s in body:
        if isinstance(s, For | While) and (shared or idle == every):
            _compare(s.body, touches((s,)), idle, s)
        after = idle - block_axes(s)
        for b in bodies(s):
            _check(b, after, every)
        if isinstance(s, Reduce) and block_axes(s):
            return  # what follows a reduction over blocks runs where it is complete (``collectives.grid_reduce``)


def _compare(body: Body, found: Sequence[Touch], idle: frozenset[str], round_of: Stmt | None) -> None:
    """Refuse conflicts between the statements of ``body``; ``round_of``: between rounds of this loop around it."""
    place = {id(x): k for k, s in enumerate(body) for x in walk((s,))}
    ended = next((k for k, s in enumerate(body) if isinstance(s, Reduce) and block_axes(s)), len(body))
    outer = 0 if round_of is None else 1
    mine = [t for t in found if place.get(id(t.stmt), ended + 1) <= ended]
    for a in mine:
        for b in mine:
            apart = round_of is not None or place[id(a.stmt)] < place[id(b.stmt)]
            if apart and a.buffer == b.buffer and _crosses(a, b, idle, outer):
                raise _refusal(a.buffer, b.stmt.loc or a.stmt.loc)


def _crosses(a: Touch, b: Touch, idle: frozenset[str], outer: int) -> bool:
    """Whether an element may be touched by one block in ``a``, by another in ``b``, and written by one of them."""
    owners = [_axes(t, outer) for t in (a, b)]
    if not isinstance(a.buffer.type, Ptr):  # each block has its own: those that do only a part lack the rest
        if not any(t.mode != "read" and own for t, own in zip((a, b), owners)):
            return False
    elif all(_by_one_thread(t, outer) for t in (a, b)):
        return False
    common = outer
    while common < min(len(a.ranges), len(b.ranges)) and _alike(a.ranges[common].loop, b.ranges[common].loop):
        common += 1
    distance = conflict(a, b, common)
    if distance is None:
        return False
    loops = [r.loop for r in a.ranges[outer:common]]
    together = frozenset[str]().union(*(block_axes(s) for s in loops)) >= idle
    return not together or any(block_axes(s) and d != 0 for s, d in zip(loops, distance[outer:]))


def _axes(t: Touch, outer: int) -> frozenset[str]:
    return frozenset[str]().union(*(block_axes(r.loop) for r in t.ranges[outer:]))


def _by_one_thread(t: Touch, outer: int) -> bool:
    """Whether the access belongs to an effect that no loop spreads: the first thread of block 0 has it."""
    plain = not has_bodies(t.stmt) and has_effect(t.stmt)
    return plain and not any(isinstance(r.loop, Spread) for r in t.ranges[outer:])


def _alike(a: Stmt, b: Stmt) -> bool:
    """Whether the two loops give the same iterations to the same blocks."""
    if not isinstance(a, Spread) or not isinstance(b, Spread):
        return False
    return (a.dist, a.lo, a.hi) == (b.dist, b.lo, b.hi)


def _refusal(buffer: Sym, loc: Loc | None) -> LoweringError:
    why = f"'{buffer.name}' is touched here by blocks that would have to wait for others that touch it too"
    return LoweringError("E-LOWER-BLOCKS", why, loc, "spread the loops that share it over the threads of one block")


__all__ = ["block_axes", "check_blocks"]
