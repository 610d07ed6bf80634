"""block-swizzle: blocks that run at the same time work on neighbouring tiles in both directions, for the L2's sake.

before                                          after block-swizzle{loop=row_tile group=$GROUP}
    par row_tile in 0..R @ [block.y]                par block in 0..R * C @ [block.x]
      par col_tile in 0..C @ [block.x]                let first: i32 = block / ($GROUP * C) * $GROUP
        B                                             let rows: i32 = min($GROUP, R - first)
                                                      let row_tile: i32 = first + block % ($GROUP * C) % rows
                                                      let col_tile: i32 = block % ($GROUP * C) / rows
                                                      B

Bands of ``$GROUP`` rows of tiles are walked column by column. The map from ``block`` to (row, column) is one to one,
and iterations are independent, so their order is free. Refused unless the two loops over blocks are a perfect nest
whose ranges do not depend on each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktc.ir.analysis.order import places
from ktc.ir.fold import add, binary, cast, fold_node, i32, is_const, mul, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Body, Call, Decl, Expr, Level, Par, Stmt, Var, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import map_body, used, walk
from ktc.passes.core.argument_kinds import Loops, Size
from ktc.passes.core.arguments import knob, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.core.script import KnobRef
from ktc.passes.shared.tiles import is_blocked


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the outer of two nested loops over blocks")
    group: Size = knob("GROUP", (1, 2, 4, 8, 16), "rows of tiles in a band")


class BlockSwizzle(Pass[Arguments]):
    name = "block-swizzle"
    summary = "the order of blocks: bands of rows of tiles, walked column by column"
    refusals = ("E-PLACE", "E-SWIZZLE-NEST", "E-SWIZZLE-RANGE")

    def sites(self, kernel: Kernel) -> list[Site]:
        found = [s for s in walk(kernel.body) if isinstance(s, Par) and allowed(_check, s)]
        group = KnobRef("GROUP")
        return [Site(self.step(loop=place_of(kernel, s), group=group), "tiles shared in L2") for s in found]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        outer = args.loop.one(kernel)
        if not isinstance(outer, Par):
            raise Refusal(
                "E-SWIZZLE-NEST", f"'{args.loop}' is no parallel loop", places(outer), "name the loop over rows"
            )
        _check(outer)
        kernel, group = args.group.declared(kernel, self.name)
        new = _swizzled(outer, group)

        def on(s: Stmt) -> Stmt | Body:
            return new if isinstance(s, Par) and s.var == outer.var else s

        return Result(kernel.with_(body=map_body(kernel.body, on)))


def _check(outer: Par) -> None:
    """``outer`` is the first of two perfectly nested loops over blocks, or it is refused."""
    locs = places(outer)
    inner = outer.body[0] if len(outer.body) == 1 else None
    if not is_blocked(outer) or not isinstance(inner, Par) or not is_blocked(inner):
        why = f"'{outer.var.name}' is not the outer of two nested loops over blocks"
        raise Refusal("E-SWIZZLE-NEST", why, locs, "tile{loops=row,col ...} makes such a nest")
    if any(len(s.dist) != 1 or s.dist[0].n is not None for s in (outer, inner)):
        raise Refusal("E-SWIZZLE-NEST", "a loop over blocks takes several rounds", locs, "leave the block levels open")
    if (used(inner.lo) | used(inner.hi)) & {outer.var}:
        raise Refusal("E-SWIZZLE-RANGE", f"the range of '{inner.var.name}' depends on '{outer.var.name}'", locs)
    if not (is_const(outer.lo, 0) and is_const(inner.lo, 0)):
        raise Refusal("E-SWIZZLE-RANGE", "the loops do not start at 0", locs, "tile numbers tiles from 0")


def _swizzled(outer: Par, group: Expr) -> Par:
    inner = outer.body[0]
    assert isinstance(inner, Par)
    t = outer.var.type
    assert isinstance(t, Scalar)
    rows, cols = cast(outer.hi, t), cast(inner.hi, t)
    block = fresh("block", t)
    g = cast(group, t)
    band = mul(g, cols)
    first, height = fresh("first", t), fresh("rows", t)
    within = binary("%", Var(block), band)
    lets = (
        Decl(first, mul(fold_node(Binary("/", Var(block), band)), g), const=True),
        Decl(height, fold_node(Call("min", (g, sub(rows, Var(first))), t)), const=True),
        Decl(outer.var, add(Var(first), binary("%", within, Var(height))), const=True),
        Decl(inner.var, cast(binary("/", within, Var(height)), inner.var.type), const=True),  # type: ignore[arg-type]
    )
    level = (Level("block", None, "x"),)
    hi = mul(rows, cols)
    return Par(var=block, lo=cast(i32(0), t), hi=hi, dist=level, body=(*lets, *inner.body), loc=outer.loc)


__all__ = ["BlockSwizzle"]
