"""prefetch: fetch the next tile into registers before this round computes, and put it into shared memory after.

before                                             after prefetch{loop=k_tile}
    for k_tile in 0..n step 8                          array A_next: local f32[128, 4]
      if k_tile + 8 < n                                for k_tile in 0..n step 8
        par A_i ... par A_v ...                          if k_tile + 8 < n
          A_s[1 - b, ..] = A[.. k_tile + 8 ..]             par A_i ... par A_v ...: A_next[A_i, A_v] = A[..]
      C                                                  C
                                                         if k_tile + 8 < n
                                                           par A_i ... par A_v ...: A_s[1 - b, ..] = A_next[A_i, A_v]

For loops that ``multi-buffer{stages=2}`` has made, where a copy and the computation touch different buffers: nothing
but the loads stands before ``C``, so their latency passes while it runs. Each thread keeps the elements that it copies
(lowering gives them registers); targets without asynchronous copies, and tiles that are transposed on the way, gain
most.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.analysis.order import places
from ktc.ir.arith.loop_extents import extent
from ktc.ir.fold import is_const
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Alloc, Body, For, If, Load, Par, Stmt, Store, Var, fresh
from ktc.ir.types import Array, scalar_of
from ktc.ir.walk import assigned, refresh, used, walk
from ktc.passes.core.argument_kinds import Loops
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of, rewrite_loops
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.shared.tiles import is_blocked, is_copy, paths


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("a double-buffered serial loop")


class Prefetch(Pass[Arguments]):
    name = "prefetch"
    summary = "the next tile's loads go to registers before the round, and to shared memory after it"
    refusals = ("E-PLACE", "E-PREFETCH-LOOP", "E-PREFETCH-FORM")

    def sites(self, kernel: Kernel) -> list[Site]:
        loops = [s for s in walk(kernel.body) if isinstance(s, For) and allowed(_split, kernel, s)]
        doc = "global latency behind the computation"
        return [Site(self.step(loop=place_of(kernel, s)), doc) for s in loops]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        return rewrite_loops(kernel, args.loop.find(kernel), lambda s: _split(kernel, s))


def _split(kernel: Kernel, s: Stmt) -> Body:
    """The registers and the loop with its copies in two halves."""
    locs = places(s)
    path = next(p for p in paths(kernel.body) if p[-1] is s)
    if not isinstance(s, For) or not all(isinstance(p, Par) and is_blocked(p) for p in path[:-1]) or len(path) < 2:
        raise Refusal("E-PREFETCH-LOOP", "it is not the block's own serial loop", locs, "run register-tile first")
    ahead = s.body[0] if s.body else None
    if not isinstance(ahead, If) or ahead.orelse or not ahead.then or not all(map(is_copy, ahead.then)):
        hint = "multi-buffer{stages=2} makes such a loop"
        raise Refusal("E-PREFETCH-FORM", f"'{s.var.name}' does not start by copying the next tile", locs, hint)
    if used(ahead.cond) & assigned(s.body):
        raise Refusal("E-PREFETCH-FORM", "the round changes whether there is a next tile", locs)
    front: list[Stmt] = []
    fetch: list[Stmt] = []
    put: list[Stmt] = []
    for nest in ahead.then:
        halves = _halves(nest)
        if halves is None:
            raise Refusal("E-PREFETCH-FORM", "a copy is more than loops around one assignment", locs)
        alloc, loads, stores = halves
        front.append(alloc)
        fetch.append(loads)
        put.append(stores)
    body = (If(ahead.cond, tuple(fetch)), *s.body[1:], If(ahead.cond, tuple(put)))
    return (*front, dataclasses.replace(s, body=body))


def _halves(nest: Stmt) -> tuple[Alloc, Stmt, Stmt] | None:
    """(registers, loads into them, stores out of them) of a copy nest."""
    loops: list[Par] = []
    s = nest
    while isinstance(s, Par) and len(s.body) == 1:
        reach = extent(s.lo, s.hi)
        if not is_const(s.lo, 0) or reach.cap is None or reach.clips:
            return None
        loops.append(s)
        s = s.body[0]
    if not isinstance(s, Store) or not loops:
        return None
    shape = tuple(p.hi for p in loops)
    regs = fresh(f"{s.buffer.stem.removesuffix('_s')}_next", Array(scalar_of(s.buffer.type), shape))
    at = tuple(Var(p.var) for p in loops)
    load, store = Store(regs, at, s.value, loc=s.loc), dataclasses.replace(s, value=Load(regs, at))
    inner_loads: Stmt = load
    inner_stores: Stmt = store
    for p in reversed(loops):
        inner_loads = dataclasses.replace(p, body=(inner_loads,))
        inner_stores = dataclasses.replace(p, body=(inner_stores,))
    (stores,) = refresh((inner_stores,))
    return Alloc(regs), inner_loads, stores
