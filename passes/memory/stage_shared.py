"""stage-shared: a cooperative copy of a tile's footprint into shared memory, which the tile then reads.

before                                             after stage-shared{array=A loop=k_tile}
    for k_tile in 0..n step 8                          array A_s: shared f32[64, 8]
      par row in 0..64 @ [unroll 4, thread.x 16]       for k_tile in 0..n step 8
        par col in 0..64 @ [unroll 4, thread.y 16]       par A_i in 0..512 @ [thread.x 16, thread.y 16, unroll 2]
          for k in k_tile..k_tile + 8                      A_s[A_i / 8, A_i % 8] = R + A_i / 8 < M
            acc[row, col] += A[(R + row) * n + k] * ..         ? A[(R + A_i / 8) * n + k_tile + A_i % 8] : 0.0
                                                         par row ... par col ... for k ...
                                                           acc[row, col] += A_s[row, k - k_tile] * ..

The copy is one flat loop ``A_i`` over all threads of the block (with ``vec=4``: lanes ``A_v`` inside), along the
buffer's contiguous dimension, whatever the layout of the tile: ``transpose=yes`` stores it with its dimensions
reversed, ``inner=k`` with the one last that ``k`` moves along (a thread's channels of ``w[c, k, tap]``, as one vector);
with ``copy=rows`` there is a loop a dimension, the last over ``thread.x``, the one before over ``thread.y``,
without quotients where rows are no multiple of the block's. Elements that no access touches (beyond the edges, corners
of a star) are not read; they hold zero, so a nest that reads staged arrays alone and fills private ones runs whole
tiles without guards (``tiles.whole_tiles``). With ``fill=none`` they hold nothing: the nest keeps its guards, and a
copy is one condition and one access, which hardware predicates. Barriers are derived by lowering. ``loop`` is a serial
loop or a loop over blocks: its body happens once a block.

A read behind a condition or a clamp is copied behind it, where that is a function of the place read
(``guarded_reads``); a choice between the element and a constant, as at the rim of an image, is then made by the copy.

Refused unless the footprint is a box of known size (``ir/analysis/footprint.py``), nothing in the kernel writes the
array, and it is known which accesses are reached.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ktc.ir.analysis.order import places
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Body,
    Expr,
    For,
    Load,
    Par,
    Reduce,
    Stmt,
    Sym,
    fresh,
)  # fmt: skip
from ktc.ir.types import Array, Ptr, scalar_of
from ktc.ir.walk import assigned, declared, map_body, used_in
from ktc.passes.core.argument_kinds import Arrays, KnobSpec, Loops, Size
from ktc.passes.core.arguments import option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import LoopStmt, place_of
from ktc.passes.core.refusals import Refusal, Result, accepted, allowed, attempted
from ktc.passes.shared.distribution_coverage import assume
from ktc.passes.shared.tiles import is_blocked, paths, split_copies, whole_tiles

from .region_reads import Region, read_only, reading, region_of
from .tile_copy import Copy, Style, copy_nest, thread_levels

VEC = KnobSpec("V", (1, 2, 4, 8, 16), "elements a copy moves at once")
ONE = Size(1, VEC)


@dataclass(frozen=True)
class Arguments:
    array: Arrays = required("the buffer to stage")
    loop: Loops = required("the loop whose body uses the tile: serial, or over blocks")
    vec: Size = option(ONE, "elements an access of the copy", knobs=(VEC,), least=1)
    transpose: bool = option(False, "store the tile with its dimensions reversed")
    inner: str = option("", "the loop along which the tile's elements are neighbours; as in the buffer if not named")
    copy: Literal["flat", "rows"] = option("flat", "one loop over all elements, or one a dimension")
    fill: Literal["zero", "none"] = option("zero", "what elements of the tile that nobody reads hold")


class StageShared(Pass[Arguments]):
    name = "stage-shared"
    summary = "a cooperative copy of a tile's footprint into shared memory"
    refusals = (
        "E-PLACE", "E-STAGE-ARRAY", "E-STAGE-WRITTEN", "E-STAGE-LOOP", "E-STAGE-NONE", "E-STAGE-FOOTPRINT",
        "E-STAGE-GUARD", "E-STAGE-OPAQUE", "E-STAGE-VEC", "E-STAGE-FILL", "E-STAGE-INNER", "E-DIST-COVER",
    )  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        out = []
        for path in paths(kernel.body):
            s = path[-1]
            if not isinstance(s, For | Par) or not allowed(_check_place, kernel, s, path):
                continue
            for p in kernel.params:
                if isinstance(p.sym.type, Ptr) and allowed(region_of, kernel, p.sym, s, path):
                    step = self.step(array=p.sym.name, loop=place_of(kernel, s))
                    out.append(Site(step, "each element is fetched once a block"))
        return out

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        buffer, found = read_only(kernel, args.array), args.loop.find(kernel)
        kernel, vec = args.vec.declared(kernel, self.name)
        if args.inner and args.transpose:
            raise Refusal("E-STAGE-INNER", "the tile is reversed, or has a loop's dimension last: not both")
        style = Style(vec, args.transpose, args.copy == "rows", args.fill == "zero", args.inner)
        return _staged(kernel, buffer, found, style)


def _staged(kernel: Kernel, buffer: Sym, found: list[LoopStmt], style: Style) -> Result:
    regions: list[Region] = []
    for s in found:
        path = next(p for p in paths(kernel.body) if p[-1] is s)
        _check_place(kernel, s, path)
        region = attempted(region_of, kernel, buffer, s, path)  # type: ignore[arg-type]
        if isinstance(region, Region) or region.code != "E-STAGE-NONE" or len(found) == 1:
            regions.append(accepted(region))
    if not regions:
        raise Refusal("E-STAGE-NONE", f"'{buffer.name}' is not read there")
    tiles: dict[object, Sym] = {}
    notes = []
    for r in regions:
        nests: list[Stmt] = []
        allocs: list[Stmt] = []
        mine: list[Sym] = []
        for k, (box, holds) in enumerate(r.boxes):
            if style.inner and style.moved(box) is None:
                why = f"no loop '{style.inner}' moves along a dimension of the tile of '{buffer.name}'"
                raise Refusal("E-STAGE-INNER", why, places(s))
            shape = tuple(d.size for d in style.laid_out(box, box.dims))
            key = (id(r.path[-2]) if len(r.path) > 1 else 0, k, shape)  # loops side by side share their tile
            if key not in tiles:
                tiles[key] = fresh(f"{buffer.name}_s", Array(scalar_of(buffer.type), shape, "shared"))
                allocs.append(Alloc(tiles[key], align=16))
            mine.append(tiles[key])
            copy = Copy(buffer, tiles[key], box, style, r.path, holds)
            nest, facts = copy_nest(copy, kernel, thread_levels(kernel.body))
            if used_in(tuple(nest)) & {*declared(r.loop.body), *assigned(r.loop.body)}:
                why = f"where the tile of '{buffer.name}' lies is only known inside '{r.loop.var.name}'"
                raise Refusal("E-STAGE-FOOTPRINT", why, (r.loop.loc,) if r.loop.loc else ())
            kernel = assume(kernel, facts)
            nests += nest
            notes.append(f"{tiles[key].name} of {len(shape)} dimensions")
        arrays, copies, use = split_copies(reading(r, buffer, _from(mine, r, style)))
        body = whole_tiles((*arrays, *copies, *nests, *use), r.path)
        kernel = kernel.with_(body=_placed(kernel.body, r.loop, tuple(allocs), body))
    return Result(kernel, tuple(dict.fromkeys(notes)))


def _from(tiles: Sequence[Sym], r: Region, style: Style) -> Callable[[int, tuple[Expr, ...]], Expr]:
    """A read of one of ``tiles`` at coordinates of its box."""
    return lambda k, coords: Load(tiles[k], style.laid_out(r.boxes[k][0], coords))


def _placed(body: Body, loop: For | Par, alloc: Body, inside: Body) -> Body:
    """The tile is declared before a serial loop, whose next rounds may want it, and inside a loop over blocks."""

    def on(s: Stmt) -> Stmt | Body:
        if isinstance(s, For | Par) and s.var == loop.var:
            if isinstance(s, Par):
                return dataclasses.replace(s, body=(*alloc, *inside))
            return (*alloc, dataclasses.replace(s, body=inside))
        return s

    return map_body(body, on)


def _check_place(kernel: Kernel, s: Stmt, path: tuple[Stmt, ...]) -> None:
    """The region is the block's, with no loop over threads around it and a body that is no thread's own; or refused."""
    locs = places(s)
    if isinstance(s, Reduce) or (isinstance(s, Par) and not is_blocked(s)):
        why = f"'{s.var.name}' is spread over threads: each would stage its own tile"  # type: ignore[union-attr]
        raise Refusal("E-STAGE-LOOP", why, locs, "name a serial loop, or one over blocks (tile makes both)")
    around = [p for p in path[:-1] if isinstance(p, Par | Reduce) and not is_blocked(p)]
    if around:
        why = f"it runs once for every '{around[-1].var.name}', which threads share out"
        raise Refusal("E-STAGE-LOOP", why, locs, "register-tile turns the serial loop outwards first")
    if not kernel.is_parallel or not any(isinstance(p, Par) for p in path):
        raise Refusal("E-STAGE-LOOP", "no loop over blocks is around it", locs, "run raise and tile first")
