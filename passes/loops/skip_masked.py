"""skip-masked: what is computed for a tile is not, where a mask leaves nothing of the tile.

before                                              after skip-masked{loop=x_tile}
    par y_tile in 0..cdiv(n, 64) @ [block.y]            par y_tile in 0..cdiv(n, 64) @ [block.y]
      par x_tile in 0..cdiv(n, 64) @ [block.x]            par x_tile in 0..cdiv(n, 64) @ [block.x]
        for k_tile in 0..d step 16                          if x_tile * 64 - 64 - y_tile * 64 < 0
          (sums of products of a tile)                        for k_tile in 0..d step 16
        par y in 0..64 @ [thread.y 8, unroll 8]                 (sums of products of a tile)
          par x in 0..64 @ [thread.x 8, unroll 8]           par y in 0..64 @ [thread.y 8, unroll 8]
            out[..] = x_tile * 64 + x > y_tile * 64 + y       (as it was)
              ? 0.0 : sum[y, x]

Causal scores are the case: what ``unmask`` has computed for all, whole tiles above the diagonal need not compute. A
store's value is a choice by a comparison of integers, one side of which needs nothing that the tile computes. Where the
comparison comes out for that side in all iterations of a tile is known from the ends of their loops
(:mod:`..shared.tile_comparisons`), and is a condition of the block. Refused where a tile does anything that others see
beside such stores, and where the stores themselves hold all the work (``register-tile`` parts it from them).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.effects import is_global_effect
from ktc.ir.analysis.order import places
from ktc.ir.arith.loop_extents import extent
from ktc.ir.arith.polynomial import Polynomial, minus, plus, polynomial
from ktc.ir.fold import i32
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Assign,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Binary,
    Body,
    Decl,
    Expr,
    For,
    If,
    Par,
    Select,
    Stmt,
    Store,
    Sym,
)
from ktc.ir.purity import is_removable
from ktc.ir.text import print_expr
from ktc.ir.types import Array, Ptr, is_signed_integer
from ktc.ir.walk import assigned, loads_in, map_body, stmt_exprs, used, walk, with_bodies
from ktc.passes.core.argument_kinds import Loop
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.named_loops import replace_loops
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.shared.serial_sums import counted_to
from ktc.passes.shared.tile_comparisons import Tile, chosen_by, outcomes
from ktc.passes.shared.tiles import Path, is_blocked, paths


@dataclass(frozen=True)
class Arguments:
    loop: Loop = required("the innermost loop over blocks, whose iterations are tiles")


class SkipMasked(Pass[Arguments]):
    name = "skip-masked"
    summary = "what is computed for a tile is not, where a mask leaves nothing of the tile"
    refusals = ("E-PLACE", "E-PLACE-AMBIGUOUS", "E-MASKED-LOOP", "E-MASKED-STORES", "E-MASKED-NONE")

    def sites(self, kernel: Kernel) -> list[Site]:
        """One for each loop over tiles that a mask may leave nothing of."""
        tiles = [s for s in walk(kernel.body) if isinstance(s, Par) and is_blocked(s)]
        doc = "tiles wholly behind the mask compute nothing"
        return [Site(self.step(loop=place_of(kernel, s)), doc) for s in tiles if allowed(_skipping, kernel, s)]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        loop = args.loop.find(kernel)
        if not isinstance(loop, Par):
            raise Refusal("E-MASKED-LOOP", f"'{args.loop}' is not a parallel loop", places(loop))
        done = _skipping(kernel, loop)
        return Result(replace_loops(kernel, [loop], lambda _: done), (f"{loop.var.name}: masked tiles are skipped",))


def _skipping(kernel: Kernel, loop: Par) -> Par:
    tiles = chosen_by(kernel, loop, "E-MASKED-LOOP")
    stores = [p for p in paths(loop.body) if isinstance(p[-1], Store) and isinstance(p[-1].buffer.type, Ptr)]
    others = [s for s in walk(loop.body) if is_global_effect(s) and not any(s is p[-1] for p in stores)]
    if others or not stores:
        raise Refusal("E-MASKED-STORES", f"'{loop.var.name}' does more than store", places(*others))
    names = definitions(kernel.body)
    conds: dict[str, Binary] = {}
    values: dict[int, Expr] = {}
    for path in stores:
        cond, value = _masked(kernel, tiles, names, path, assigned(loop.body))
        conds[print_expr(cond)] = cond
        values[id(path[-1])] = value
    if len(conds) > 1:
        why = f"several masks leave nothing of different tiles of '{loop.var.name}'"
        raise Refusal("E-MASKED-NONE", why, places(loop))
    (behind,) = conds.values()
    idle = _idle(loop, values)
    seen = Binary("<", behind.a, behind.b)
    body = tuple(If(seen, (s,), loc=s.loc) if any(s is x for x in idle) else s for s in loop.body)
    return dataclasses.replace(loop, body=body)


def _masked(
    kernel: Kernel, tiles: set[Sym], names: dict[Sym, Expr], path: Path, computed: set[Sym]
) -> tuple[Binary, Expr]:
    """When all iterations of a tile store the side of a choice that needs nothing ``computed``, and that side."""
    store = path[-1]
    assert isinstance(store, Store)
    value = expand(store.value, names)
    tile = Tile(kernel, tiles)
    for s in path[:-1]:
        if isinstance(s, For | Par) and (ends := _ends(s, names)) is not None:
            tile.ends[s.var] = ends
    chosen = value if isinstance(value, Select) else None
    if (
        chosen is not None
        and isinstance(c := chosen.cond, Binary)
        and all(is_signed_integer(x.type) for x in (c.a, c.b))
    ):
        for holds, p in outcomes(c.op, polynomial(expand(c.a, names)), polynomial(expand(c.b, names))):
            side = chosen.a if holds else chosen.b
            depends = used(side) & computed or any(True for _ in loads_in(side))
            cond = None if depends else tile.always(p)
            if isinstance(cond, Binary):
                return cond, side
    why = f"what is stored to '{store.buffer.name}' is no choice that a tile makes alike for all of its elements"
    raise Refusal("E-MASKED-NONE", why, places(store))


def _ends(s: For | Par, names: dict[Sym, Expr]) -> tuple[Polynomial, Polynomial] | None:
    """The least and the largest value of the variable of ``s``: of a tile that is cut off, those of a whole one."""
    start = s.init if isinstance(s, For) else s.lo
    end = counted_to(s) if isinstance(s, For) else s.hi
    if end is None or not is_signed_integer(s.var.type) or (isinstance(s, For) and s.var in assigned(s.body)):
        return None
    cap = extent(start, end).cap
    low = polynomial(expand(start, names))
    above = polynomial(expand(end, names)) if cap is None else plus(low, polynomial(cap))
    return low, minus(above, polynomial(i32(1)))


def _idle(loop: Par, values: Mapping[int, Expr]) -> Sequence[Stmt]:
    """The loops and branches of ``loop`` that do nothing for storing ``values``."""
    left = _live(tuple(_storing(s, values) for s in loop.body))
    idle = [s for s in loop.body if isinstance(s, For | If) and not _stores(s)]
    if any(not _stores(s) for s in left if isinstance(s, For | If | Par)) or not idle:
        why = f"what '{loop.var.name}' stores behind the mask takes the loops that compute what it stores elsewhere"
        raise Refusal("E-MASKED-STORES", why, places(loop), "register-tile parts a sum from its store")
    return idle


def _stores(s: Stmt) -> bool:
    """Whether ``s`` stores to global memory."""
    return any(isinstance(x, Store) and isinstance(x.buffer.type, Ptr) for x in walk((s,)))


def _storing(s: Stmt, values: Mapping[int, Expr]) -> Stmt:
    """``s`` with each store of ``values`` storing that."""
    if isinstance(s, Store) and id(s) in values:
        return dataclasses.replace(s, value=values[id(s)])
    return with_bodies(s, lambda body: tuple(_storing(x, values) for x in body))


def _live(body: Body) -> Body:
    """``body`` without what only changes variables and arrays of the block that nothing else reads."""
    while True:
        needed: set[Sym] = set()
        for s in walk(body):
            mine = {s.sym} if isinstance(s, Assign) else {s.buffer} if isinstance(s, Store) else set()
            needed |= {v for e in stmt_exprs(s) for v in used(e)} - mine
        live = map_body(body, lambda s, needed=needed: s if _is_needed(s, needed) else None)  # type: ignore[misc]
        if live is body:
            return body
        body = live


def _is_needed(s: Stmt, needed: set[Sym]) -> bool:
    match s:
        case Decl() | Assign() | Alloc():
            return s.sym in needed or not all(map(is_removable, stmt_exprs(s)))
        case Store() if isinstance(s.buffer.type, Array):
            return s.buffer in needed
        case AsyncCopy():
            return s.dst in needed
        case AsyncCommit() | AsyncWait():
            return False
        case For() | Par():
            return bool(s.body)
        case If():
            return bool(s.then or s.orelse)
    return True
