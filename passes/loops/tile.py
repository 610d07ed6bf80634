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
and with ``tail=exact`` the first alone: the launcher checks that nothing is left. Where a range is shown to be whole
(``batch * length`` by ``length``; a tile of 16 by 4), its tiles are, whatever ``tail`` says. What counts whole tiles of
a serial loop from 0 (``k / ($TK * s)``, the group of a value) is a quotient of ``k_tile``, the same in all of a tile.

Parallel iterations are independent, so any order is one; the tail is the ``min``. A block level moves to the tile loop,
the other levels stay with the loop inside.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.order import is_name, places
from ktc.ir.arith import REWRITES, facts_of, simplified
from ktc.ir.arith.counted_loops import counting, why_unsteady
from ktc.ir.arith.integer_casts import without_index_casts
from ktc.ir.arith.loop_extents import length
from ktc.ir.fold import add, binary, cast, cdiv, fold_node, is_const, mul, product
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Binary,
    Body,
    Break,
    Call,
    Const,
    Decl,
    Dist,
    Expr,
    For,
    HwIndex,
    If,
    Level,
    Load,
    Par,
    Reduce,
    Stmt,
    Sym,
    Var,
    fresh,
    i32,
)  # fmt: skip
from ktc.ir.types import Scalar
from ktc.ir.walk import keep, map_body, refresh, rename, substitute_expr, used, walk, walk_expr
from ktc.passes.core.argument_kinds import KnobSpec, Loop, Size
from ktc.passes.core.arguments import knobs, option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.core.script import KnobRef, Step, listed
from ktc.passes.shared.distribution_coverage import Need, assume


@dataclass(frozen=True)
class Arguments:
    loops: tuple[Loop, ...] = required("one loop, or perfectly nested parallel loops, outermost first")
    sizes: tuple[Size, ...] = knobs(
        "tile size per loop",
        KnobSpec("TILE", (4, 8, 16, 32, 64, 128, 256), "iterations of a tile"),
        code="E-TILE-SIZES",
    )
    tail: Literal["guard", "cut", "exact"] = option(
        "guard", "what is left after whole tiles; of a serial loop also cut (loops of its own) or exact (assumed none)"
    )


class Tile(Pass[Arguments]):
    name = "tile"
    summary = "split a serial loop, or a band of parallel loops, into tiles"
    refusals = (
        "E-PLACE", "E-TILE-SIZES", "E-TILE-FORM", "E-TILE-BREAK", "E-TILE-BAND", "E-TILE-BOUNDS", "E-TILE-REDUCE",
        "E-DIST-COVER",
    )  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        out = []
        for s in walk(kernel.body):
            if isinstance(s, For) and allowed(counted, s):
                out.append(Site(self._suggested(kernel, [s]), "strip-mine for locality"))
            if (
                isinstance(s, Par)
                and len(s.body) == 1
                and isinstance(s.body[0], Par)
                and allowed(check_band, [s, s.body[0]])
            ):
                out.append(Site(self._suggested(kernel, [s, s.body[0]]), "tile of a parallel band"))
        return out

    def _suggested(self, kernel: Kernel, band: Sequence[For | Par]) -> Step:
        sizes = listed(KnobRef(f"T{s.var.name.upper()}") for s in band)
        return self.step(loops=listed(place_of(kernel, s) for s in band), sizes=sizes)

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        sizes, tail = args.sizes, args.tail
        if len(sizes) != len(args.loops):
            raise Refusal("E-TILE-SIZES", f"{len(args.loops)} loops need as many sizes, not {len(sizes)}")
        band = [_one_loop(kernel, name) for name in args.loops]
        extents: list[Expr] = []
        for size in sizes:
            kernel, n = size.declared(kernel, self.name)
            extents.append(n)
        if isinstance(band[0], For) and len(band) == 1:
            return _tile_serial(kernel, band[0], extents[0], tail)
        if tail != "guard":
            raise Refusal("E-TILE-BAND", f"'{tail}' is for a serial loop", places(*band), "parallel tiles are clipped")
        pars = [s for s in band if isinstance(s, Par)]
        if len(pars) != len(band):
            hint = "tile them one by one, or run raise first"
            raise Refusal("E-TILE-BAND", "only parallel loops can be tiled together", places(*band), hint)
        check_band(pars)
        return Result(_replace(kernel, pars[0], _tile_band(kernel, pars, extents)))


def _one_loop(kernel: Kernel, name: Loop) -> For | Par:
    loop = name.find(kernel)
    if isinstance(loop, For | Par):
        return loop
    if isinstance(loop, Reduce):
        hint = "distribute splits a reduction: [unroll 4, thread.x 128, seq]"
        raise Refusal("E-TILE-REDUCE", f"'{name}' is a reduction: tiling would change its order", places(loop), hint)
    raise Refusal("E-PLACE", f"'{name}' is not a loop", places(loop), "name one, such as loop:k")


# ------------------------------------------------------------------------------------------------------ serial loops


def counted(s: For) -> tuple[Expr, Expr]:
    """(limit, stride) of a loop that counts up by an unchanging stride and that nothing leaves early."""
    form = counting(s)
    if form is None:
        raise Refusal("E-TILE-FORM", f"'{s.var.name}' is not a loop 'i < limit; i += stride'", places(s))
    if isinstance(form.by, Const) and form.by.value < 1:
        raise Refusal("E-TILE-FORM", f"'{s.var.name}' does not count up", places(s))
    unsteady = why_unsteady(s, form)
    if unsteady:
        raise Refusal("E-TILE-FORM", unsteady, places(s))
    if _breaks(s.body):
        raise Refusal("E-TILE-BREAK", f"the loop over '{s.var.name}' may be left early", places(s))
    return form.hi, form.by


def _breaks(body: Body) -> bool:
    """Whether a break in ``body`` leaves the loop around it."""
    return any(isinstance(s, Break) or (isinstance(s, If) and (_breaks(s.then) or _breaks(s.orelse))) for s in body)


def _tile_serial(kernel: Kernel, s: For, size: Expr, tail: str) -> Result:
    shape = counted(s)
    hi, by = shape
    ty = s.var.type
    assert isinstance(ty, Scalar)
    outer = fresh(f"{s.var.name}_tile", ty)
    stride = mul(by, cast(size, ty))
    end = Call("min", (add(Var(outer), stride), hi), ty)
    s = dataclasses.replace(s, body=_by_groups(s, outer, stride))
    inner = dataclasses.replace(s, init=Var(outer), cond=Binary("<", Var(s.var), end), comments=())
    tiles = For(
        var=outer, init=s.init, cond=Binary("<", Var(outer), hi), step=Binary("+", Var(outer), stride), body=(inner,),
        loc=s.loc, comments=s.comments,
    )  # fmt: skip
    full = dataclasses.replace(s, init=Var(outer), cond=Binary("<", Var(s.var), add(Var(outer), stride)), comments=())
    whole_tiles = _replace(kernel, s, dataclasses.replace(tiles, body=(full,)))
    here = facts_of(kernel, REWRITES).at(s)
    extent = length(s.init, hi, here)
    if here.divides(stride, extent):
        return Result(whole_tiles)
    if tail == "guard":
        return Result(_replace(kernel, s, tiles))
    if tail == "exact":
        extent = expand(extent, definitions(kernel.body))
        unknown = any(isinstance(e, HwIndex | Load) for e in walk_expr(extent))
        if unknown or used(extent) - {p.sym for p in kernel.params}:
            raise Refusal("E-TILE-FORM", f"the length of '{s.var.name}' is unknown at launch", places(s))
        why = f"the {{have}} iterations of '{s.var.name}' are no whole tiles of {{want}}"
        fits = binary("==", binary("%", extent, stride), cast(i32(0), ty))
        return Result(assume(whole_tiles, (Need(fits, why, extent, stride, places(s), "tail=guard or tail=cut"),)))
    if not ty.is_signed and not is_const(s.init, 0):
        raise Refusal("E-TILE-FORM", f"'{s.var.name}' is unsigned and does not start at 0", places(s))
    whole = mul(fold_node(Binary("/", extent, stride)), stride)
    start = add(cast(s.init, ty), whole)
    first = dataclasses.replace(tiles, cond=Binary("<", Var(outer), start), body=(full,))
    (last,) = rename((dataclasses.replace(tiles, init=start, comments=()),), {outer: fresh(outer.name, ty)})
    return Result(_replace(kernel, s, (first, *refresh((last,)))))


def _by_groups(s: For, tile: Sym, stride: Expr) -> Body:
    """The body of ``s``, which counts from 0, with quotients of ``tile`` for those of its variable by whole tiles of
    ``stride``: the variable is less than a tile beyond that."""
    if not is_const(s.init, 0) or not isinstance(stride, Const):
        return s.body

    def on(e: Expr) -> Expr:
        if not isinstance(e, Binary) or e.op != "/" or not isinstance(e.b, Const) or e.b.value < 1:
            return e
        by_tiles = without_index_casts(e.a) == Var(s.var) and e.b.value % stride.value == 0
        return dataclasses.replace(e, a=substitute_expr(e.a, {s.var: Var(tile)})) if by_tiles else e

    return map_body(s.body, keep, on)


# ---------------------------------------------------------------------------------------------------- parallel bands


def check_band(band: Sequence[Par]) -> None:
    """``band`` is a nest of parallel loops with independent bounds and nothing but names of values in between, or it is
    refused."""
    for outer, inner in itertools.pairwise(band):
        if not outer.body or outer.body[-1] != inner or not all(is_name(d, inner.body) for d in outer.body[:-1]):
            raise _no_nest(outer, inner)
    indices: set[Sym] = {s.var for s in band} | {d.sym for s in band[:-1] for d in s.body if isinstance(d, Decl)}
    for s in band:
        if (used(s.lo) | used(s.hi)) & indices:
            names = ", ".join(sorted(f"'{v.name}'" for v in (used(s.lo) | used(s.hi)) & indices))
            raise Refusal(
                "E-TILE-BOUNDS", f"the bounds of '{s.var.name}' depend on {names} of the same band", places(s)
            )


def _no_nest(outer: Par, inner: Par) -> Refusal:
    """Why ``inner`` is not all that ``outer`` does: the order given is not theirs, they are apart, or more is there."""
    a, b, where = outer.var.name, inner.var.name, places(outer, inner)
    if any(x is outer for x in walk(inner.body)):
        why = f"'{a}' is inside '{b}', not around it"
        return Refusal("E-TILE-BAND", why, where, f"name the outermost loop first: loops={b},{a}")
    if not any(x == inner for x in walk(outer.body)):
        return Refusal("E-TILE-BAND", f"'{b}' is not inside '{a}'", where, "tile them one by one")
    if len(outer.body) == 1:
        only = outer.body[0]
        what = f"the loop over '{only.var.name}'" if isinstance(only, For | Par | Reduce) else "a condition"
        return Refusal("E-TILE-BAND", f"{what} stands between '{a}' and '{b}'", places(only, inner))
    why = f"'{b}' is not the only statement in '{a}', which has {len(outer.body)}"
    return Refusal("E-TILE-BAND", why, where, "fission moves other statements out")


def _tile_band(kernel: Kernel, band: Sequence[Par], sizes: Sequence[Expr]) -> Stmt:
    """The tile loops in band order around the element loops in band order."""
    here = facts_of(kernel, REWRITES).at(band[0])
    tiles: list[Par] = []
    inners: list[Par] = []
    for s, size in zip(band, sizes):
        ty = s.var.type
        assert isinstance(ty, Scalar)
        width = cast(size, ty)
        tile = fresh(f"{s.var.name}_tile", ty)
        outer_dist, inner_dist = split(s.dist, size)
        start = add(s.lo, mul(Var(tile), width))
        extent = length(s.lo, s.hi, here)
        whole = here.divides(width, extent)
        end = add(start, width) if whole else fold_node(Call("min", (add(start, width), s.hi), ty))
        count = cast(cdiv(extent, width), ty)
        count = simplified(count, here) if whole else count
        tiles.append(Par(var=tile, lo=cast(i32(0), ty), hi=count, dist=outer_dist, body=(), loc=s.loc))
        inners.append(dataclasses.replace(s, lo=start, hi=end, dist=inner_dist))
    nest: Body = (*(d for s in band[:-1] for d in s.body[:-1]), *band[-1].body)  # names go in, where each is computed
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
