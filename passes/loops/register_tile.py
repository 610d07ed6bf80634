"""register-tile: keep the values that live across a serial loop in registers, and turn that loop outwards.

before                                              after register-tile{loop=k_tile}
    par row in R..min(R + $TM, M) @ [unroll 8, ...]     array acc: local f32[$TM, $TN]
      par col in C..min(C + $TN, N) @ [vec 4, ...]      par row in 0..$TM @ [unroll 8, ...]
        var acc: f32 = 0.0                                par col in 0..$TN @ [vec 4, ...]
        for k_tile in 0..K step $TK                         acc[row, col] = 0.0
          B                                             for k_tile in 0..K step $TK
        C[row * N + col] = acc                            par row in 0..min($TM, M - R) @ [unroll 8, ...]
                                                            par col in 0..min($TN, N - C) @ [vec 4, ...]
                                                              B with acc[row, col] for acc
                                                        par row in 0..min($TM, M - R) @ [unroll 8, ...]
                                                          par col in 0..min($TN, N - C) @ [vec 4, ...]
                                                            C[(R + row) * N + C + col] = acc[row, col]

Iterations of a parallel loop are independent, so the band may be distributed over the statements in it, and exchanged
with a serial loop that every iteration runs alike. A scalar that lives from one piece to the next is expanded to an
array of the tile, a private array to a tile of arrays; each thread keeps the elements of its own iterations (lowering
gives them registers). The loops of all pieces are still what the source calls them, so ``distribute{loop=row.* ...}``
speaks of all of them. The body of the serial loop is now the block's: what ``stage-shared`` needs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.order import places
from ktc.ir.arith.loop_extents import extent
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Alloc,
    Assign,
    Atomic,
    Body,
    Const,
    Decl,
    Expr,
    For,
    If,
    InlineAsm,
    Load,
    Par,
    Raw,
    Reduce,
    Stmt,
    Store,
    Sym,
    Var,
    While,
    fresh,
)  # fmt: skip
from ktc.ir.storage import is_local_array
from ktc.ir.types import Array, Scalar
from ktc.ir.walk import all_exprs, assigned, map_body, substitute, substitute_expr, used, used_in, walk
from ktc.passes.core.argument_kinds import Loops
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.shared.tiles import is_blocked, over_tile, paths, whole_tiles

from .tile import counted


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the serial loop")


class RegisterTile(Pass[Arguments]):
    name = "register-tile"
    summary = "values that live across a serial loop become a tile of registers, and the loop the block's"
    refusals = (
        "E-PLACE", "E-RTILE-SERIAL", "E-RTILE-BAND", "E-RTILE-BLOCK", "E-RTILE-EXTENT", "E-RTILE-BOUNDS",
        "E-RTILE-VALUE", "E-TILE-FORM", "E-TILE-BREAK",
    )  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        out = []
        for s in walk(kernel.body):
            if isinstance(s, For) and allowed(_tiled, kernel, [s]):
                out.append(Site(self.step(loop=place_of(kernel, s)), "one pass of the loop for a whole tile"))
        return out

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        found = args.loop.find(kernel)
        serial = [s for s in found if isinstance(s, For)]
        for s in found:
            if not isinstance(s, For):
                why = f"'{s.var.name}' is a parallel loop"
                raise Refusal("E-RTILE-SERIAL", why, places(s), "name the serial loop inside")
        return _tiled(kernel, serial)


def _tiled(kernel: Kernel, serial: Sequence[For]) -> Result:
    chains = {s.var: path for path in paths(kernel.body) for s in serial if path[-1] is s}
    groups: dict[Sym, list[For]] = {}  # innermost parallel loop -> the serial loops directly in it
    for s in serial:
        parent = chains[s.var][-2] if len(chains[s.var]) > 1 else None
        if not isinstance(parent, Par):
            raise _not_directly_inside(s, chains[s.var][:-1])
        groups.setdefault(parent.var, []).append(s)
    notes: list[str] = []
    for loops in groups.values():
        band = _band(chains[loops[0].var][:-1])
        pieces = _pieces(band, loops, kernel)
        new, kept = pieces
        notes.append(f"in registers: {', '.join(s.name for s in kept) or 'nothing'}")
        kernel = kernel.with_(body=_replaced(kernel.body, band[0], new))
    return Result(kernel, tuple(notes))


def _not_directly_inside(s: For, around: Sequence[Stmt]) -> Refusal:
    """Why no parallel loop is right around ``s``: there is none, or something stands between it and the loop."""
    loop = next((x for x in reversed(around) if isinstance(x, Par)), None)
    if loop is None:
        return Refusal("E-RTILE-BAND", f"'{s.var.name}' is in no parallel loop", places(s), "run raise first")
    between = around[-1]
    what = KINDS.get(type(between), "a loop")
    name = f" over '{between.var.name}'" if isinstance(between, For | Reduce) else ""
    why = f"{what}{name} stands between '{s.var.name}' and '{loop.var.name}', the parallel loop around it"
    return Refusal("E-RTILE-BAND", why, places(between, s), "the serial loop must be directly in the parallel one")


KINDS = {If: "a condition", For: "the serial loop", Reduce: "the reduction", While: "a while loop"}


def _replaced(body: Body, old: Par, new: Body) -> Body:
    return map_body(body, lambda s: new if isinstance(s, Par) and s.var == old.var else s)


def _band(path: tuple[Stmt, ...]) -> list[Par]:
    """The perfectly nested parallel loops that end ``path``, below the blocks and the loops over tiles in a block."""
    band: list[Par] = []
    for s in reversed(path):
        if not isinstance(s, Par) or is_blocked(s) or (band and (len(s.body) != 1 or _over_tiles(s, band))):
            break
        band.insert(0, s)
    for s in band:
        if any(lv.kind in ("block", "cluster") for lv in s.dist):
            why = f"'{s.var.name}' is spread over blocks and threads at once"
            raise Refusal("E-RTILE-BLOCK", why, places(s), "tile it first: the tile loop takes the blocks")
        if extent(s.lo, s.hi).cap is None:
            why = f"how many iterations of '{s.var.name}' a block has is not known before launch"
            raise Refusal("E-RTILE-EXTENT", why, places(s), "tile it first")
        if (used(s.lo) | used(s.hi)) & {b.var for b in band}:
            why = f"the range of '{s.var.name}' depends on another loop of the tile"
            raise Refusal("E-RTILE-EXTENT", why, places(s))
    if not band:
        raise Refusal("E-RTILE-BAND", "no loop over threads is around it", hint="tile the loops outside it first")
    return band


def _over_tiles(s: Par, band: Sequence[Par]) -> bool:
    """Whether each thread runs all of ``s``, a loop over tiles such as ``band``: each has an array of its own."""
    bounds = {v for b in band for e in (b.lo, b.hi) for v in used(e)}
    return all(lv.kind == "seq" for lv in s.dist) and (s.var in bounds or extent(s.lo, s.hi).cap is None)


def _pieces(band: list[Par], loops: list[For], kernel: Kernel) -> tuple[Body, list[Sym]]:
    """The band once per piece of its body: before, inside and after each of ``loops``."""
    body = band[-1].body
    own = {s.var for s in band}
    names = {k: e for k, e in definitions(body).items() if any(isinstance(s, Decl) and s.sym == k for s in body)}
    names = {k: expand(e, names) for k, e in names.items()}  # recomputed where they are needed
    body = substitute(tuple(s for s in body if not (isinstance(s, Decl) and s.sym in names)), names)
    private = {s.sym for s in walk(body) if isinstance(s, Decl | Alloc)} | own
    segments: list[Body | For] = []
    run: list[Stmt] = []
    for s in body:
        if isinstance(s, For) and any(s.var == f.var for f in loops):
            counted(s)
            if any(used(substitute_expr(e, names)) & private for e in (s.init, s.cond, s.step)):
                why = f"how often '{s.var.name}' runs differs between iterations of '{band[-1].var.name}'"
                raise Refusal("E-RTILE-BOUNDS", why, places(s))
            segments += [tuple(run), s]
            run = []
        else:
            run.append(s)
    segments.append(tuple(run))
    kept = _lasting(segments)
    shape_of = tuple(cap for s in band if (cap := extent(s.lo, s.hi).cap) is not None)  # as the band has to have
    tiles = {k: fresh(k.name, _tile_of(k, shape_of)) for k in kept}
    out: list[Stmt] = [Alloc(t) for t in tiles.values()]
    for seg in segments:
        if isinstance(seg, For):
            out.append(dataclasses.replace(seg, body=whole_tiles(_piece(band, seg.body, tiles))))
        elif seg:
            out += whole_tiles(_piece(band, seg, tiles))
    return tuple(out), kept


def _tile_of(v: Sym, shape: tuple[Expr, ...]) -> Array:
    """An array of ``shape`` of what ``v`` is, a scalar or an array of one thread."""
    if isinstance(v.type, Array):
        return dataclasses.replace(v.type, shape=(*shape, *v.type.shape))
    assert isinstance(v.type, Scalar)
    return Array(v.type, shape, "local")


def _lasting(segments: list[Body | For]) -> list[Sym]:
    """Scalars and private arrays declared in one piece and used in another, in source order."""
    kept: list[Sym] = []
    lists = [s.body if isinstance(s, For) else s for s in segments]
    for k, seg in enumerate(lists):
        later = set().union(*(used_in(x) | _written(x) for x in lists[k + 1 :])) if k + 1 < len(lists) else set()
        for s in seg:
            declared = (
                [s.sym] if isinstance(s, Decl | Alloc) else [a.sym for a in s.accs] if isinstance(s, Reduce) else []
            )
            for sym in declared:
                if sym not in later or isinstance(segments[k], For):
                    continue
                scalar = isinstance(s, Decl) and isinstance(sym.type, Scalar)
                if not scalar and not (isinstance(s, Alloc) and _is_plain_array(sym, lists)):
                    raise Refusal("E-RTILE-VALUE", f"'{sym.name}' is no scalar variable or private array", places(s))
                kept.append(sym)
    for seg in lists:
        for s in walk(seg):
            if (isinstance(s, Atomic) and s.dst in kept) or (
                isinstance(s, InlineAsm) and any(o in kept for _, o in s.outputs)
            ):
                raise Refusal("E-RTILE-VALUE", "an atomic or assembly writes a value that would be kept", places(s))
    return kept


def _is_plain_array(v: Sym, lists: Sequence[Body]) -> bool:
    """Whether ``v`` is an array of one thread, of scalars and of a size that is known, whose elements are read and
    written one by one."""
    t = v.type
    if not (isinstance(t, Array) and is_local_array(v) and isinstance(t.elem, Scalar)):
        return False
    if not all(isinstance(n, Const) for n in t.shape):
        return False
    body = tuple(s for seg in lists for s in seg)
    if any(isinstance(e, AddrOf | Raw) and v in used(e) for e in all_exprs(body)):
        return False
    if any(isinstance(e, Load) and e.buffer == v and e.width != 1 for e in all_exprs(body)):
        return False
    others = (s for s in walk(body) if not isinstance(s, Alloc | For | While | If | Par | Reduce))
    return all(isinstance(s, Store) and s.width == 1 for s in others if v in assigned((s,)))


def _declares(s: Stmt) -> list[Sym]:
    if isinstance(s, Reduce):
        return [a.sym for a in s.accs]
    return [s.sym] if isinstance(s, Decl | Alloc) else []


def _written(body: Body) -> set[Sym]:
    return {s.sym for s in walk(body) if isinstance(s, Assign)}


def _piece(band: list[Par], body: Body, tiles: Mapping[Sym, Sym]) -> Body:
    """``body`` in its own copy of the band, with lasting scalars in their arrays."""
    nest, names = over_tile(band, body)
    at = tuple(Var(v) for v in names)

    def on(s: Stmt) -> Stmt | None:
        if isinstance(s, Alloc) and s.sym in copies:
            return None
        if isinstance(s, Store) and s.buffer in copies:
            return dataclasses.replace(s, buffer=copies[s.buffer], index=(*at, *s.index))
        if isinstance(s, Decl) and s.sym in copies:
            return None if s.init is None else Store(copies[s.sym], at, s.init, loc=s.loc, comments=s.comments)
        if isinstance(s, Assign) and s.sym in copies:
            return Store(copies[s.sym], at, s.value, loc=s.loc, comments=s.comments)
        return s

    def read(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer in copies:
            return dataclasses.replace(e, buffer=copies[e.buffer], index=(*at, *e.index))
        return Load(copies[e.sym], at) if isinstance(e, Var) and e.sym in copies else e

    copies = _renamed(body, nest, tiles)
    return map_body(nest, on, read)


def _renamed(body: Body, nest: Body, tiles: Mapping[Sym, Sym]) -> dict[Sym, Sym]:
    """``tiles`` under the names that ``nest``, a copy of ``body``, gives to what ``body`` declares."""
    out = dict(tiles)
    old = [s.sym for s in walk(body) if isinstance(s, Decl | Alloc)]
    new = [s.sym for s in walk(nest) if isinstance(s, Decl | Alloc)]
    return out | {n: tiles[o] for o, n in zip(old, new) if o in tiles}
