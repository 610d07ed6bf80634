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

from collections.abc import Mapping

from ktc.ir.analysis.order import places
from ktc.ir.fold import add, binary, cast, fold_node, i32, is_const, mul, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Binary, Body, Call, Decl, Expr, Level, Par, Stmt, Var, fresh
from ktc.ir.types import Scalar
from ktc.ir.walk import map_body, used, walk
from ktc.passes.core.base import Arg, KnobRef, ParamSpec, Pass, Refused, Result, Site
from ktc.passes.core.knobs import size_argument
from ktc.passes.core.places import find_loops, place_of
from ktc.passes.shared.tiles import is_blocked

DOMAIN = (1, 2, 4, 8, 16)


class BlockSwizzle(Pass):
    name = "block-swizzle"
    summary = "the order of blocks: bands of rows of tiles, walked column by column"
    params = (
        ParamSpec("loop", "the outer of two nested loops over blocks", required=True),
        ParamSpec("group", "rows of tiles in a band", default="$GROUP"),
    )
    knobs = ("GROUP: 1,2,4,8,16: rows of tiles in a band",)
    refusals = ("E-PLACE", "E-SWIZZLE-NEST", "E-SWIZZLE-RANGE")

    def sites(self, kernel: Kernel) -> list[Site]:
        found = [s for s in walk(kernel.body) if isinstance(s, Par) and _nest(s) is None]
        return [Site(f"block-swizzle{{loop={place_of(kernel, s)} group=$GROUP}}", "tiles shared in L2") for s in found]

    def apply(self, kernel: Kernel, args: Mapping[str, Arg]) -> Result | Refused:
        found = find_loops(kernel, args["loop"])
        if isinstance(found, Refused):
            return found
        (outer, *more) = found
        if more or not isinstance(outer, Par):
            return Refused(
                "E-SWIZZLE-NEST", f"'{args['loop']}' is not one parallel loop", hint="name the loop over rows"
            )
        refused = _nest(outer)
        if refused is not None:
            return refused
        sized = size_argument(kernel, args.get("group", KnobRef("GROUP")), DOMAIN, "rows of tiles in a band", self.name)
        if isinstance(sized, Refused):
            return sized
        kernel, group = sized
        assert group is not None
        new = _swizzled(outer, group)

        def on(s: Stmt) -> Stmt | Body:
            return new if isinstance(s, Par) and s.var == outer.var else s

        return Result(kernel.with_(body=map_body(kernel.body, on)))


def _nest(outer: Par) -> Refused | None:
    """Why ``outer`` is not the first of two perfectly nested loops over blocks."""
    locs = places(outer)
    inner = outer.body[0] if len(outer.body) == 1 else None
    if not is_blocked(outer) or not isinstance(inner, Par) or not is_blocked(inner):
        why = f"'{outer.var.name}' is not the outer of two nested loops over blocks"
        return Refused("E-SWIZZLE-NEST", why, locs, "tile{loops=row,col ...} makes such a nest")
    if any(len(s.dist) != 1 or s.dist[0].n is not None for s in (outer, inner)):
        return Refused("E-SWIZZLE-NEST", "a loop over blocks takes several rounds", locs, "leave the block levels open")
    if (used(inner.lo) | used(inner.hi)) & {outer.var}:
        return Refused("E-SWIZZLE-RANGE", f"the range of '{inner.var.name}' depends on '{outer.var.name}'", locs)
    if not (is_const(outer.lo, 0) and is_const(inner.lo, 0)):
        return Refused("E-SWIZZLE-RANGE", "the loops do not start at 0", locs, "tile numbers tiles from 0")
    return None


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
