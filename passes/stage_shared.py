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
reversed. Elements that no access touches (beyond the edges, corners of a star) are not read; they hold zero, so a nest
that reads staged arrays alone and fills private ones runs whole tiles without guards (``tiles.whole_tiles``). Barriers
are derived by lowering. ``loop`` is a serial loop or a loop over blocks: its body happens once a block.

Refused unless the footprint is a box of known size (``ir/analysis/footprint.py``), nothing in the kernel writes the
array, and every access is reached whenever the region is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.dependence import noalias
from ktc.ir.analysis.footprint import Footprint, Loop, Touch, Unknown, footprint
from ktc.ir.fold import evaluate
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    AddrOf,
    Alloc,
    Atomic,
    Binary,
    Body,
    Expr,
    For,
    If,
    Load,
    Par,
    RawStmt,
    Reduce,
    Scan,
    Select,
    Stmt,
    Sym,
    While,
    bodies,
    fresh,
)  # fmt: skip
from ktc.ir.types import Array, Ptr, scalar_of
from ktc.ir.walk import all_exprs, assigned, declared, map_body, stmt_exprs, used_in, walk

from .base import Arg, ParamSpec, Pass, Refused, Result, Site
from .coverage import assume
from .knobs import size_argument
from .order import places
from .places import LoopStmt, find_loops, find_places, place_of
from .purity import is_volatile
from .tile_copy import Copy, copy_nest, thread_levels
from .tiles import is_blocked, paths, split_copies, whole_tiles

YES_NO = {"yes": True, "no": False}


class StageShared(Pass):
    name = "stage-shared"
    summary = "a cooperative copy of a tile's footprint into shared memory"
    params = (
        ParamSpec("array", "the buffer to stage", required=True),
        ParamSpec("loop", "the loop whose body uses the tile: serial, or over blocks", required=True),
        ParamSpec("vec", "elements an access of the copy: 1, 2, 4, 8, 16 or a knob", default="1"),
        ParamSpec("transpose", "yes or no: store the tile with its dimensions reversed", default="no"),
    )
    knobs = ("V: 1,2,4,8,16: elements a copy moves at once",)
    refusals = (
        "E-PLACE", "E-STAGE-ARRAY", "E-STAGE-WRITTEN", "E-STAGE-LOOP", "E-STAGE-NONE", "E-STAGE-FOOTPRINT",
        "E-STAGE-GUARD", "E-STAGE-OPAQUE", "E-STAGE-VEC", "E-DIST-COVER",
    )  # fmt: skip

    def sites(self, kernel: Kernel) -> list[Site]:
        out = []
        for path in paths(kernel.body):
            s = path[-1]
            if not isinstance(s, For | Par) or _place_refused(kernel, s, path) is not None:
                continue
            for p in kernel.params:
                if isinstance(p.sym.type, Ptr) and not isinstance(_region(kernel, p.sym, s, path), Refused):
                    step = f"stage-shared{{array={p.sym.name} loop={place_of(kernel, s)}}}"
                    out.append(Site(step, "each element is fetched once a block"))
        return out

    def apply(self, kernel: Kernel, args: Mapping[str, Arg]) -> Result | Refused:
        buffer = _buffer(kernel, args["array"])
        found = find_loops(kernel, args["loop"])
        if isinstance(buffer, Refused) or isinstance(found, Refused):
            return buffer if isinstance(buffer, Refused) else found  # type: ignore[return-value]
        if args.get("transpose", "no") not in YES_NO:
            return Refused("E-ARG-RANGE", f"transpose is yes or no, not {args['transpose']!r}")
        sized = size_argument(kernel, args.get("vec", 1), (1, 2, 4, 8, 16), "elements a copy moves at once", self.name)
        if isinstance(sized, Refused):
            return sized
        kernel, vec = sized
        assert vec is not None
        return _staged(kernel, buffer, found, vec, YES_NO[str(args.get("transpose", "no"))])


def _buffer(kernel: Kernel, place: Arg) -> Sym | Refused:
    name = place if isinstance(place, str) and ":" in place else f"array:{place}"
    found = find_places(kernel, name)
    if isinstance(found, Refused):
        return found
    sym = found[0].sym
    if sym is None or not isinstance(sym.type, Ptr) or sym.type.volatile:
        return Refused("E-STAGE-ARRAY", f"'{place}' is not a buffer in global memory")
    if any(x.buffer == sym and is_volatile(x) for x in all_exprs(kernel.body) if isinstance(x, Load)):
        return Refused("E-STAGE-ARRAY", f"'{place}' is read through a volatile pointer")
    written = assigned(kernel.body)
    pointers = {b: b.type for b in written if isinstance(b.type, Ptr)}
    if sym in written or any(isinstance(s, RawStmt) for s in walk(kernel.body)):
        return Refused("E-STAGE-WRITTEN", f"the kernel writes '{sym.name}': a copy of it could be stale")
    apart = noalias(kernel) | {b for b, t in (*pointers.items(), (sym, sym.type)) if t.restrict}
    if sym not in apart and not pointers.keys() <= apart:
        names = ", ".join(sorted(b.name for b in pointers))
        hint = "say __restrict__ in the source, or noalias in the workload"
        return Refused("E-STAGE-WRITTEN", f"what is written to {names} may alias '{sym.name}'", hint=hint)
    return sym


@dataclass(frozen=True)
class _Region:
    """A loop whose body is to read the tiles, the loops around it, and the footprints there, a tile each."""

    loop: For | Par
    path: tuple[Stmt, ...]
    boxes: tuple[Footprint, ...]
    taps: Mapping[tuple[Expr, ...], tuple[int, int]]  # index of a load -> its footprint and tap


def _staged(kernel: Kernel, buffer: Sym, found: list[LoopStmt], vec: Expr, transpose: bool) -> Result | Refused:
    regions: list[_Region] = []
    for s in found:
        path = next(p for p in paths(kernel.body) if p[-1] is s)
        refused = _place_refused(kernel, s, path)
        if refused is not None:
            return refused
        region = _region(kernel, buffer, s, path)  # type: ignore[arg-type]
        if isinstance(region, Refused):
            if region.code == "E-STAGE-NONE" and len(found) > 1:
                continue
            return region
        regions.append(region)
    if not regions:
        return Refused("E-STAGE-NONE", f"'{buffer.name}' is not read there")
    tiles: dict[object, Sym] = {}
    notes = []
    for r in regions:
        nests: list[Stmt] = []
        allocs: list[Stmt] = []
        mine: list[Sym] = []
        for k, box in enumerate(r.boxes):
            shape = tuple(d.size for d in (reversed(box.dims) if transpose else box.dims))
            key = (id(r.path[-2]) if len(r.path) > 1 else 0, k, shape)  # loops side by side share their tile
            if key not in tiles:
                tiles[key] = fresh(f"{buffer.name}_s", Array(scalar_of(buffer.type), shape, "shared"))
                allocs.append(Alloc(tiles[key], align=16))
            mine.append(tiles[key])
            made = copy_nest(Copy(buffer, tiles[key], box, vec, transpose, r.path), kernel, thread_levels(kernel.body))
            if isinstance(made, Refused):
                return made
            nest, facts = made
            if used_in(tuple(nest)) & {*declared(r.loop.body), *assigned(r.loop.body)}:
                why = f"where the tile of '{buffer.name}' lies is only known inside '{r.loop.var.name}'"
                return Refused("E-STAGE-FOOTPRINT", why, (r.loop.loc,) if r.loop.loc else ())
            settled = assume(kernel, facts, "stage-shared")
            if isinstance(settled, Refused):
                return settled
            kernel = settled
            nests += nest
            notes.append(f"{tiles[key].name} of {len(shape)} dimensions")
        arrays, copies, use = split_copies(_reading(r, buffer, mine, transpose))
        body = whole_tiles((*arrays, *copies, *nests, *use))
        kernel = kernel.with_(body=_placed(kernel.body, r.loop, tuple(allocs), body))
    return Result(kernel, tuple(dict.fromkeys(notes)))


def _placed(body: Body, loop: For | Par, alloc: Body, inside: Body) -> Body:
    """The tile is declared before a serial loop, whose next rounds may want it, and inside a loop over blocks."""

    def on(s: Stmt) -> Stmt | Body:
        if isinstance(s, For | Par) and s.var == loop.var:
            if isinstance(s, Par):
                return dataclasses.replace(s, body=(*alloc, *inside))
            return (*alloc, dataclasses.replace(s, body=inside))
        return s

    return map_body(body, on)


def _place_refused(kernel: Kernel, s: Stmt, path: tuple[Stmt, ...]) -> Refused | None:
    """The region must be the block's: no loop over threads around it, and its body no thread's own."""
    locs = places(s)
    if isinstance(s, Reduce) or (isinstance(s, Par) and not is_blocked(s)):
        why = f"'{s.var.name}' is spread over threads: each would stage its own tile"  # type: ignore[union-attr]
        return Refused("E-STAGE-LOOP", why, locs, "name a serial loop, or one over blocks (tile makes both)")
    around = [p for p in path[:-1] if isinstance(p, Par | Reduce) and not is_blocked(p)]
    if around:
        why = f"it runs once for every '{around[-1].var.name}', which threads share out"
        return Refused("E-STAGE-LOOP", why, locs, "register-tile turns the serial loop outwards first")
    if not kernel.is_parallel or not any(isinstance(p, Par) for p in path):
        return Refused("E-STAGE-LOOP", "no loop over blocks is around it", locs, "run raise and tile first")
    return None


def _region(kernel: Kernel, buffer: Sym, s: For | Par, path: tuple[Stmt, ...]) -> _Region | Refused:
    locs = places(s)
    names = definitions(kernel.body)
    touches: list[tuple[Load, Touch]] = []
    for load, loops, guarded in _loads(s.body, buffer, (), False):
        if load is None or load.width != 1 or len(load.index) != 1:
            return Refused("E-STAGE-OPAQUE", f"'{buffer.name}' is used in a way that is not followed", locs)
        if guarded:
            why = f"a condition stands before '{buffer.name}': not every iteration may read it"
            return Refused("E-STAGE-GUARD", why, locs, "peel the boundary, or tile without the condition")
        touches.append((load, Touch(expand(load.index[0], names), loops)))
    if not touches:
        return Refused("E-STAGE-NONE", f"'{buffer.name}' is not read in '{s.var.name}'", locs)
    groups: list[list[Touch]] = []
    taps: dict[tuple[Expr, ...], tuple[int, int]] = {}
    for load, touch in touches:
        for k, group in enumerate(groups):  # noqa: B007 (used after the loop)
            if not isinstance(footprint([*group, touch], lambda e: _most(kernel, e)), Unknown):
                break
        else:  # at an unknown distance from the others: a tile of its own
            k, group = len(groups), []
            groups.append(group)
        taps[load.index] = (k, len(group))
        group.append(touch)
    boxes: list[Footprint] = []
    for group in groups:
        box = footprint(group, lambda e: _most(kernel, e))
        if isinstance(box, Unknown):
            return Refused("E-STAGE-FOOTPRINT", f"the footprint of '{buffer.name}' is not a box: {box.why}", locs)
        boxes.append(box)
    return _Region(s, path, tuple(boxes), taps)


def _most(kernel: Kernel, e: Expr) -> int | None:
    """The largest value of a static expression: knobs at their largest."""
    knobs = {k.name: k.value if k.value is not None else max(k.domain) for k in kernel.knobs}
    value = evaluate(e, knobs)
    return None if value is None else int(value)


def _loads(
    body: Body, buffer: Sym, loops: tuple[Loop, ...], guarded: bool
) -> Iterator[tuple[Load | None, tuple[Loop, ...], bool]]:
    """(load, loops of the region around it, whether it may be skipped) for each access; None: not a plain load."""
    for s in body:
        inner = (*loops, s) if isinstance(s, For | Par | Reduce | Scan) else loops
        for e in stmt_exprs(s):
            for load, lazy in _in_expr(e, buffer, False):
                yield load, inner, guarded or lazy
        if isinstance(s, Atomic) and s.buffer == buffer:
            yield None, loops, guarded
        for b in bodies(s):
            yield from _loads(b, buffer, inner, guarded or isinstance(s, If | While))


def _in_expr(e: Expr, buffer: Sym, lazy: bool) -> Iterator[tuple[Load | None, bool]]:
    from ktc.ir.fields import children

    if isinstance(e, Load) and e.buffer == buffer:
        yield e, lazy
    elif isinstance(e, AddrOf) and e.buffer == buffer:
        yield None, lazy
    for k, c in enumerate(children(e)):
        skipped = k > 0 and (isinstance(e, Select) or (isinstance(e, Binary) and e.op in ("&&", "||")))
        yield from _in_expr(c, buffer, lazy or skipped)


def _reading(r: _Region, buffer: Sym, tiles: Sequence[Sym], transpose: bool) -> Body:
    """The region's body with the tiles in the buffer's place."""

    def on(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer == buffer:
            k, tap = r.taps[e.index]
            coords = r.boxes[k].taps[tap].coords
            return Load(tiles[k], tuple(reversed(coords)) if transpose else coords)
        return e

    return map_body(r.loop.body, lambda s: s, on)
