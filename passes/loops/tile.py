"""tile: split a loop, or a band of parallel loops, into tiles.

before                                          after tile{loops=i,j sizes=$TI,$TJ}
    par i in 0..n @ [block.y]                       par i_tile in 0..cdiv(n, $TI) @ [block.y]
      par j in 0..m @ [thread.x 64, block.x]          par j_tile in 0..cdiv(m, $TJ) @ [block.x]
        B                                               par i in i_tile * $TI..min((i_tile + 1) * $TI, n) @ [seq]
                                                          par j in j_tile * $TJ..min((j_tile + 1) * $TJ, m) @ [...]
                                                            B
and for one serial loop, tile{loops=k sizes=$TK}:
    for k in 0..n step s                            for k_tile in 0..n step s * $TK
      B                                               for k in k_tile..min(k_tile + s * $TK, n) step s
                                                        B
With ``tail=cut`` whole tiles come first, in loops of known length, and what is left after them:
    for k_tile in 0..n / $TK * $TK step $TK
      for k in k_tile..k_tile + $TK
    for k_tile in n / $TK * $TK..n step $TK
      for k in k_tile..min(k_tile + $TK, n)
and with ``tail=exact`` the first alone: the launcher checks that nothing is left.

Parallel iterations are independent, so any order is one; the tail is the ``min``. A block level moves to the tile loop,
the other levels stay with the loop inside.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from ktc.ir.analysis.order import places
from ktc.ir.arith.counted_loops import counting, why_unsteady
from ktc.ir.fold import add, binary, cast, cdiv, fold_node, is_const, mul, product, sub
from ktc.ir.kernel import Assume, Kernel
from ktc.ir.nodes import (
    Binary,
    Body,
    Break,
    Call,
    Const,
    Dist,
    Expr,
    For,
    HwIndex,
    If,
    Level,
    Load,
    Par,
    Stmt,
    Sym,
    Var,
    fresh,
    i32,
)  # fmt: skip
from ktc.ir.types import Scalar
from ktc.ir.walk import map_body, refresh, rename, used, walk, walk_expr
from ktc.passes.core.base import Arg, KnobRef, ParamSpec, Pass, Refused, Result, Site
from ktc.passes.core.knobs import size_argument
from ktc.passes.core.places import find_loops, place_of, resolve_place

DOMAIN = (4, 8, 16, 32, 64, 128, 256)


class Tile(Pass):
    name = "tile"
    summary = "split a serial loop, or a band of parallel loops, into tiles"
    params = (
        ParamSpec("loops", "one loop, or perfectly nested parallel loops, outermost first", required=True),
        ParamSpec("sizes", "tile size per loop", default="$TILE"),
        ParamSpec(
            "tail",
            "guard; of a serial loop also cut (whole tiles, then what is left) or exact (assumed whole)",
            default="guard",
        ),
    )
    knobs = ("TILE: 4,8,16,32,64,128,256: iterations of a tile",)
    refusals = (
        "E-PLACE", "E-TILE-SIZES", "E-TILE-FORM", "E-TILE-BREAK", "E-TILE-BAND", "E-TILE-BOUNDS", "E-TILE-REDUCE",
    )  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        out = []
        for s in walk(kernel.body):
            if isinstance(s, For) and not isinstance(counted(s), Refused):
                out.append(Site(_suggest(kernel, [s]), "strip-mine for locality"))
            if (
                isinstance(s, Par)
                and len(s.body) == 1
                and isinstance(s.body[0], Par)
                and not why_no_band([s, s.body[0]])
            ):
                out.append(Site(_suggest(kernel, [s, s.body[0]]), "tile of a parallel band"))
        return out

    def apply(self, kernel: Kernel, args: Mapping[str, Arg]) -> Result | Refused:
        names = args["loops"] if isinstance(args.get("loops"), tuple) else (args.get("loops"),)
        sizes = args.get("sizes", KnobRef("TILE"))
        sizes = sizes if isinstance(sizes, tuple) else (sizes,)
        assert isinstance(names, tuple)
        if len(sizes) != len(names):
            return Refused("E-TILE-SIZES", f"{len(names)} loops need as many sizes, not {len(sizes)}")
        band: list[For | Par] = []
        for name in names:
            loop = _one_loop(kernel, name)
            if isinstance(loop, Refused):
                return loop
            band.append(loop)
        extents: list[Expr] = []
        for size in sizes:
            if isinstance(size, int) and size < 1:
                return Refused("E-TILE-SIZES", f"a tile of {size} iterations")
            sized = size_argument(kernel, size, DOMAIN, "iterations of a tile", self.name)
            if isinstance(sized, Refused):
                return sized
            kernel, n = sized
            assert n is not None
            extents.append(n)
        tail = args.get("tail", "guard")
        if tail not in ("guard", "cut", "exact"):
            return Refused("E-ARG-RANGE", f"tail is guard, cut or exact, not {tail!r}")
        if isinstance(band[0], For) and len(band) == 1:
            return _tile_serial(kernel, band[0], extents[0], str(tail))
        if tail != "guard":
            return Refused("E-TILE-BAND", f"'{tail}' is for a serial loop", places(*band), "parallel tiles are clipped")
        pars = [s for s in band if isinstance(s, Par)]
        if len(pars) != len(band):
            hint = "tile them one by one, or run raise first"
            return Refused("E-TILE-BAND", "only parallel loops can be tiled together", places(*band), hint)
        refused = why_no_band(pars)
        return refused or Result(_replace(kernel, pars[0], _tile_band(pars, extents)))


def _suggest(kernel: Kernel, band: Sequence[For | Par]) -> str:
    loops = ",".join(place_of(kernel, s) for s in band)
    return f"tile{{loops={loops} sizes={','.join(f'$T{s.var.name.upper()}' for s in band)}}}"


def _one_loop(kernel: Kernel, name: Arg | None) -> For | Par | Refused:
    found = find_loops(kernel, name)
    if isinstance(found, Refused):
        return found
    place = resolve_place(kernel, name)
    if isinstance(place, Refused):
        return place
    if not isinstance(place.stmt, For | Par):
        hint = "distribute splits a reduction: [unroll 4, thread.x 128, seq]"
        return Refused("E-TILE-REDUCE", f"'{name}' is a reduction: tiling would change its order", places(*found), hint)
    return place.stmt


# ------------------------------------------------------------------------------------------------------ serial loops


def counted(s: For) -> tuple[Expr, Expr] | Refused:
    """(limit, stride) of a loop that counts up by an unchanging stride and that nothing leaves early."""
    form = counting(s)
    if form is None:
        return Refused("E-TILE-FORM", f"'{s.var.name}' is not a loop 'i < limit; i += stride'", places(s))
    if isinstance(form.by, Const) and form.by.value < 1:
        return Refused("E-TILE-FORM", f"'{s.var.name}' does not count up", places(s))
    unsteady = why_unsteady(s, form)
    if unsteady:
        return Refused("E-TILE-FORM", unsteady, places(s))
    if _breaks(s.body):
        return Refused("E-TILE-BREAK", f"the loop over '{s.var.name}' may be left early", places(s))
    return form.hi, form.by


def _breaks(body: Body) -> bool:
    """Whether a break in ``body`` leaves the loop around it."""
    return any(isinstance(s, Break) or (isinstance(s, If) and (_breaks(s.then) or _breaks(s.orelse))) for s in body)


def _tile_serial(kernel: Kernel, s: For, size: Expr, tail: str) -> Result | Refused:
    shape = counted(s)
    if isinstance(shape, Refused):
        return shape
    hi, by = shape
    ty = s.var.type
    assert isinstance(ty, Scalar)
    outer = fresh(f"{s.var.name}_tile", ty)
    stride = mul(by, cast(size, ty))
    end = Call("min", (add(Var(outer), stride), hi), ty)
    inner = dataclasses.replace(s, init=Var(outer), cond=Binary("<", Var(s.var), end), comments=())
    tiles = For(
        var=outer, init=s.init, cond=Binary("<", Var(outer), hi), step=Binary("+", Var(outer), stride), body=(inner,),
        loc=s.loc, comments=s.comments,
    )  # fmt: skip
    if tail == "guard":
        return Result(_replace(kernel, s, tiles))
    full = dataclasses.replace(s, init=Var(outer), cond=Binary("<", Var(s.var), add(Var(outer), stride)), comments=())
    if tail == "exact":
        extent = sub(hi, cast(s.init, ty))
        unknown = any(isinstance(e, HwIndex | Load) for e in walk_expr(extent))
        if unknown or used(extent) - {p.sym for p in kernel.params}:
            return Refused("E-TILE-FORM", f"the length of '{s.var.name}' is unknown at launch", places(s))
        fits = Assume(binary("==", binary("%", extent, stride), cast(i32(0), ty)), "guessed")
        tiled = _replace(kernel, s, dataclasses.replace(tiles, body=(full,)))
        return Result(tiled.with_(assumptions=tuple(dict.fromkeys((*kernel.assumptions, fits)))))
    if not ty.is_signed and not is_const(s.init, 0):
        return Refused("E-TILE-FORM", f"'{s.var.name}' is unsigned and does not start at 0", places(s))
    whole = mul(fold_node(Binary("/", sub(hi, cast(s.init, ty)), stride)), stride)
    start = add(cast(s.init, ty), whole)
    first = dataclasses.replace(tiles, cond=Binary("<", Var(outer), start), body=(full,))
    (last,) = rename((dataclasses.replace(tiles, init=start, comments=()),), {outer: fresh(outer.name, ty)})
    return Result(_replace(kernel, s, (first, *refresh((last,)))))


# ---------------------------------------------------------------------------------------------------- parallel bands


def why_no_band(band: Sequence[Par]) -> Refused | None:
    """Why ``band`` is not a perfect nest of parallel loops with independent bounds; None if it is."""
    for outer, inner in itertools.pairwise(band):
        if len(outer.body) != 1 or outer.body[0] != inner:
            why = f"'{inner.var.name}' is not the only statement in '{outer.var.name}'"
            return Refused("E-TILE-BAND", why, places(outer, inner))
    indices: set[Sym] = {s.var for s in band}
    for s in band:
        if (used(s.lo) | used(s.hi)) & indices:
            return Refused("E-TILE-BOUNDS", f"the bounds of '{s.var.name}' depend on the band's own indices", places(s))
    return None


def _tile_band(band: Sequence[Par], sizes: Sequence[Expr]) -> Stmt:
    """The tile loops in band order around the element loops in band order."""
    tiles: list[Par] = []
    inners: list[Par] = []
    for s, size in zip(band, sizes):
        ty = s.var.type
        assert isinstance(ty, Scalar)
        width = cast(size, ty)
        tile = fresh(f"{s.var.name}_tile", ty)
        outer_dist, inner_dist = split(s.dist, size)
        start = add(s.lo, mul(Var(tile), width))
        end = fold_node(Call("min", (add(start, width), s.hi), ty))
        count = cast(cdiv(sub(s.hi, s.lo), width), ty)
        tiles.append(Par(var=tile, lo=cast(i32(0), ty), hi=count, dist=outer_dist, body=(), loc=s.loc))
        inners.append(dataclasses.replace(s, lo=start, hi=end, dist=inner_dist))
    nest: Body = band[-1].body
    for p in reversed([*tiles, *inners]):
        nest = (dataclasses.replace(p, body=nest),)
    return nest[0]


def split(dist: Dist, size: Expr) -> tuple[Dist, Dist]:
    """Levels of the tile loop and of the loop over the ``size`` iterations of a tile.

    The block level goes out. A thread level that took the whole range takes the tile's; what is open stays open.
    """
    out = tuple(dataclasses.replace(lv, n=None) for lv in dist if lv.kind == "block")[:1]
    rest = tuple(lv for lv in dist if lv.kind != "block")
    if rest and rest[-1].n is None and rest[-1].kind != "seq":
        others = product([lv.n for lv in rest if lv.n is not None])
        rest = (*rest[:-1], dataclasses.replace(rest[-1], n=cdiv(size, others)))
    if rest and rest[-1].n is not None:
        rest = (*rest, Level("seq"))
    return out or (Level("seq"),), rest or (Level("seq"),)


def _replace(kernel: Kernel, old: For | Par, new: Stmt | Body) -> Kernel:
    def on(s: Stmt) -> Stmt | Body:
        return new if isinstance(s, For | Par) and s.var == old.var else s

    return kernel.with_(body=map_body(kernel.body, on))
