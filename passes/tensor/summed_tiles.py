"""Tiles of sums: a serial loop that adds up inside of a block's loops over threads, in a loop that is the block's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeGuard

from ktc.ir.analysis.order import pinned, places
from ktc.ir.arith.affine import cancelled
from ktc.ir.arith.loop_extents import Extent, extent_of
from ktc.ir.fold import add, cast, i32, is_const, lt
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import Body, Decl, Expr, For, Load, Par, Reduce, Stmt, Sym, Var
from ktc.ir.purity import is_removable
from ktc.ir.types import scalar_of
from ktc.ir.walk import assigned, keep, map_body, map_expr, substitute, substitute_expr, used_in, walk
from ktc.passes.core.refusals import Refusal
from ktc.passes.shared.bands import Band, band_around
from ktc.passes.shared.tiles import paths


@dataclass(frozen=True)
class Side:
    """A loop of a tile: how far it runs at most, what else ends it, and where it begins."""

    loop: For | Par | Reduce
    size: Expr
    extent: Extent
    start: Expr


@dataclass(frozen=True)
class SummedTile:
    """The loop ``sums`` right inside of the parallel loops ``tile``, outermost first, which are in ``band``."""

    band: Band
    sums: For | Reduce
    tile: tuple[Par, ...]


def summed_tile(kernel: Kernel, loop: For, code: str) -> SummedTile:
    """The tile of sums inside of ``loop``, or a refusal with ``code``."""
    locs = places(loop)
    inner = [s for s in walk(loop.body) if _is_serial(s) and not any(isinstance(x, LOOPS) for x in walk(s.body))]
    if len(inner) != 1:
        raise Refusal(code, f"'{loop.var.name}' holds no single serial loop that adds up a tile", locs)
    (sums,) = inner
    band = band_around(kernel, sums)
    if band is None or band.region is not loop or pinned(band.loop.body) is not None:
        why = f"the sums of '{sums.var.name}' stand in no loop over the block's threads right inside '{loop.var.name}'"
        raise Refusal(code, why, locs, "register-tile turns a serial loop out")
    path = next(p for p in paths((band.loop,)) if p[-1] is sums)[:-1]
    tile = tuple(s for s in path if isinstance(s, Par))
    if len(tile) != len(path) or len(tile) < 2:
        why = f"'{sums.var.name}' does not stand right inside of two parallel loops or more"
        raise Refusal(code, why, locs)
    return SummedTile(band, sums, tile)


LOOPS = (For, Par, Reduce)


def _is_serial(s: Stmt) -> TypeGuard[For | Reduce]:
    return isinstance(s, For) or (isinstance(s, Reduce) and all(lv.kind == "seq" for lv in s.dist))


def side_of(s: For | Par | Reduce, code: str) -> Side:
    """How far ``s`` runs, or a refusal with ``code``."""
    reach = extent_of(s)
    if reach is None or reach.cap is None:
        why = f"how often '{s.var.name}' runs is not known before launch"
        raise Refusal(code, why, places(s), "tile makes a loop of known length out of a long one")
    return Side(s, reach.cap, reach, begin(s))


def begin(s: For | Par | Reduce) -> Expr:
    """The first value that ``s`` counts."""
    return s.init if isinstance(s, For) else s.lo


def from_zero(s: For | Reduce) -> For | Reduce:
    """``s``, whose extent is known, counting from 0: where a tile of terms begins is then asked by nobody."""
    reach, start = extent_of(s), begin(s)
    if is_const(start, 0) or reach is None or reach.cap is None or reach.clips:
        return s
    v = s.var
    env: dict[Sym, Expr] = {v: add(start, Var(v))}

    def placed(e: Expr) -> Expr:
        return replace(e, index=tuple(map(cancelled, e.index))) if isinstance(e, Load) else e

    def moved(e: Expr) -> Expr:
        return map_expr(substitute_expr(e, env), placed)

    zero, end = cast(i32(0), scalar_of(v.type)), cast(reach.cap, scalar_of(v.type))
    body = map_body(substitute(s.body, env), keep, placed)
    if isinstance(s, For):
        return replace(s, init=zero, cond=lt(Var(v), end), body=body)
    return replace(s, lo=zero, hi=end, body=body, accs=tuple(replace(a, value=moved(a.value)) for a in s.accs))


def without_unused(band: Body) -> Body:
    """``band`` without names of values that nothing in it uses."""
    while True:
        known = used_in(band) | assigned(band)
        unused = [d for d in walk(band) if isinstance(d, Decl) and d.sym not in known and _is_idle(d)]
        if not unused:
            return band
        band = map_body(band, lambda s, unused=unused: None if s in unused else s)  # type: ignore[misc]


def _is_idle(d: Decl) -> bool:
    return d.init is None or is_removable(d.init)


__all__ = ["Side", "SummedTile", "begin", "from_zero", "side_of", "summed_tile", "without_unused"]
