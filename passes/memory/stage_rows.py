"""stage-rows: what each thread does to its part of a row is done to a tile in shared memory, copied in and out by rows.

before                                              after stage-rows{array=y loop=j}
    for j_tile in 1..m step 64                          array y_s: shared f32[32, 64]
      par row in 0..32 @ [thread.x 32]                  for j_tile in 1..m step 64
        for j in j_tile..min(j_tile + 64, m)              par y_r in 0..32 @ [thread.y $TY, unroll 32 / $TY]
          y[(R + row) * m + j] += s                         par y_c in 0..min(64, m - j_tile) @ [thread.x 32, unroll 2]
                                                              y_s[y_r, y_c] = y[(R + y_r) * m + j_tile + y_c]
                                                          par row in 0..32 @ [thread.x 32]
                                                            for j in j_tile..min(j_tile + 64, m)
                                                              y_s[row, j - j_tile] += s
                                                          par y_r ... par y_c ...
                                                              y[(R + y_r) * m + j_tile + y_c] = y_s[y_r, y_c]

A thread that goes along a row alone reads and writes elements far from its neighbours', and waits for each of them.
Copies take whole rows by neighbouring threads, many loads at once; what the loop computes, in its order, stays with its
thread. What is only read is not copied out, what is only written is not copied in. Threads of a column of the tile meet
in one bank: ``pad-shared{array=y_s by=1}`` mends that. Barriers are derived by lowering.

Legal where the loop stands in a loop over threads that is the block's, each of its iterations is at one element of the
array, along the rows, whatever the data say, and nothing else in the loop over threads may touch the array.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.dependence import may_alias, noalias
from ktc.ir.analysis.order import jump, pinned, places
from ktc.ir.arith.affine import linear_form
from ktc.ir.arith.loop_extents import extent
from ktc.ir.arith.polynomial import same_value
from ktc.ir.fold import add, cast, cdiv, i32, is_const, simplify, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Atomic,
    Body,
    Expr,
    For,
    Level,
    Load,
    Par,
    Raw,
    RawStmt,
    Reduce,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
    has_bodies,
)
from ktc.ir.purity import is_volatile
from ktc.ir.types import Array, Ptr, Scalar, scalar_of
from ktc.ir.walk import all_exprs, assigned, declared, map_body, substitute_expr, used, walk
from ktc.passes.core.argument_kinds import Arrays, Loop, Size
from ktc.passes.core.arguments import knob, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.places import place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.core.script import KnobRef
from ktc.passes.shared.bands import with_arrays
from ktc.passes.shared.certain_loads import certain_loads
from ktc.passes.shared.serial_sums import counted_to
from ktc.passes.shared.tiles import Path, is_blocked, iterations, paths


@dataclass(frozen=True)
class Arguments:
    array: Arrays = required("the buffer whose rows are copied")
    loop: Loop = required("the serial loop along the part of a row, in a loop over threads")
    rows: Size = knob("TY", (1, 2, 4, 8, 16), "rows that a copy moves at once", wish=4)


class StageRows(Pass[Arguments]):
    name = "stage-rows"
    summary = "a tile of rows, of which a thread has one each, copied by neighbouring threads"
    refusals = ("E-PLACE", "E-PLACE-AMBIGUOUS", "E-ROWS-LOOP", "E-ROWS-ARRAY", "E-ROWS-INDEX", "E-ROWS-ALIAS")

    def sites(self, kernel: Kernel) -> list[Site]:
        out = []
        for path in paths(kernel.body) if kernel.is_parallel else ():
            if isinstance(loop := path[-1], For):
                named = (p.sym for p in kernel.params if isinstance(p.sym.type, Ptr))
                steps = (self.step(array=b.name, loop=place_of(kernel, loop), rows=KnobRef("TY"))
                         for b in named if allowed(_rows, kernel, b, path))  # fmt: skip
                out += [Site(step, "rows copied by neighbouring threads") for step in steps]
        return out

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        buffer, loop = args.array.one(kernel).sym, args.loop.find(kernel)
        if not isinstance(loop, For):
            raise Refusal("E-ROWS-LOOP", f"'{args.loop}' is no serial loop", places(loop))
        if buffer is None or not isinstance(buffer.type, Ptr):
            raise Refusal("E-ROWS-ARRAY", f"'{args.array.name}' is not a buffer in global memory")
        found = _rows(kernel, buffer, next(p for p in paths(kernel.body) if p[-1] is loop))
        kernel, at_once = args.rows.declared(kernel, self.name)
        return Result(_staged(kernel, found, at_once), (f"{buffer.name}: rows of a tile",))


@dataclass(frozen=True)
class Rows:
    """``loop`` along part of a row in ``band``, the loop over rows; ``index`` of the element that it is at; ``region``:
    the loop in which a tile lives; ``size``: rows and columns of a tile."""

    buffer: Sym
    band: Par
    loop: For
    index: Expr
    region: For | Par
    size: tuple[Expr, Expr]
    is_read: bool
    is_written: bool


def _rows(kernel: Kernel, buffer: Sym, path: Path) -> Rows:
    *around, band, loop = (None, None, *path)
    assert isinstance(loop, For)
    locs = places(loop)
    region = around[-1]
    if not isinstance(band, Par) or not _is_over_threads(band) or not any(s is loop for s in band.body):
        raise Refusal("E-ROWS-LOOP", f"'{loop.var.name}' does not stand in a loop over threads", locs)
    if not isinstance(region, For | Par) or any(isinstance(s, Par | Reduce) and not is_blocked(s) for s in around):
        why = f"'{band.var.name}' is not a loop of the block's threads in a loop over tiles or blocks"
        raise Refusal("E-ROWS-LOOP", why, places(band), "tile, then register-tile, make such loops")
    end, bad = counted_to(loop), pinned(band.body) or jump(band.body)
    own = {band.var, *declared(band.body), *assigned(band.body)}
    if end is None or (used(end) | used(loop.init)) & own or bad is not None:
        why = f"'{loop.var.name}' does not count up by one, between the same ends in all rows, without jumps"
        raise Refusal("E-ROWS-LOOP", why, places(bad, loop))
    caps = extent(band.lo, band.hi).cap, extent(loop.init, end).cap
    if caps[0] is None or caps[1] is None or not is_const(band.lo, 0):
        raise Refusal("E-ROWS-LOOP", f"'{band.var.name}' and '{loop.var.name}' do not cover a tile of known size", locs)
    index, stores = _element(kernel, buffer, band, loop, own - {band.var} | {loop.var})
    _is_apart(kernel, buffer, band, bool(stores))
    reads = any(isinstance(e, Load) and e.buffer == buffer for e in all_exprs(loop.body))
    return Rows(buffer, band, loop, index, region, (caps[0], caps[1]), reads, bool(stores))


def _is_over_threads(s: Par) -> bool:
    return bool(s.dist) and s.dist[0].kind == "thread" and all(lv.kind in ("thread", "seq", "unroll") for lv in s.dist)


def _element(kernel: Kernel, buffer: Sym, band: Par, loop: For, inside: set[Sym]) -> tuple[Expr, list[Store]]:
    """The index of the only element of ``buffer`` that an iteration of ``loop`` is at, and the stores to it."""
    locs, name = places(loop), buffer.name
    loads = [e for e in all_exprs((band,)) if isinstance(e, Load) and e.buffer == buffer]
    stores = [s for s in walk((band,)) if isinstance(s, Store) and s.buffer == buffer]
    here = [e for e in all_exprs(loop.body) if isinstance(e, Load) and e.buffer == buffer]
    held = [s for s in loop.body if isinstance(s, Store) and s.buffer == buffer]
    used_at: list[Load | Store] = [*loads, *stores]
    plain = all(x.width == 1 and not x.cache and not is_volatile(x) for x in used_at)
    others = [s for s in walk((band,)) if not has_bodies(s) and not isinstance(s, Store) and buffer in assigned((s,))]
    if not plain or len(here) != len(loads) or len(held) != len(stores) or others or not (loads or stores):
        why = f"'{name}' is not read and stored to in '{loop.var.name}' alone, an element at a time"
        raise Refusal("E-ROWS-ARRAY", why, locs)
    if not stores and not any(x.buffer == buffer for x in certain_loads(loop.body)):
        raise Refusal("E-ROWS-ARRAY", f"whether '{name}' is read in '{loop.var.name}' depends on data", locs)
    names = definitions(kernel.body)
    found = [expand(e, names) for x in used_at for e in x.index]
    form = linear_form(found[0], (band.var, loop.var))
    if any(not same_value(e, found[0]) for e in found[1:]) or used(found[0]) & (inside - {loop.var}):
        raise Refusal("E-ROWS-INDEX", f"iterations of '{loop.var.name}' are at several elements of '{name}'", locs)
    if form is None or not is_const(form.coeff(loop.var), 1) or is_const(form.coeff(band.var), 0):
        why = f"'{loop.var.name}' does not run along rows of '{name}' that '{band.var.name}' counts"
        raise Refusal("E-ROWS-INDEX", why, locs)
    return found[0], stores


def _is_apart(kernel: Kernel, buffer: Sym, band: Par, is_written: bool) -> None:
    """Nothing that ``band`` writes, or reads where ``buffer`` is written, may overlap ``buffer``; or it is refused."""
    apart = noalias(kernel)
    written = {b for b in assigned(band.body) if isinstance(b.type, Ptr)} - {buffer}
    read = {e.buffer for e in all_exprs(band.body) if isinstance(e, Load)} - {buffer} if is_written else set()
    opaque = any(isinstance(s, Atomic | Raw | RawStmt) for s in walk(band.body))
    other = next((b for b in written | read if may_alias(b, buffer, apart)), None)
    if opaque or other is not None:
        what = "opaque code or an atomic" if other is None else f"'{other.name}'"
        hint = "noalias in the workload, or __restrict__, says that arrays do not overlap"
        raise Refusal("E-ROWS-ALIAS", f"{what} may touch what '{buffer.name}' has there", places(band), hint)


def _staged(kernel: Kernel, r: Rows, at_once: Expr) -> Kernel:
    t = scalar_of(r.buffer.type)
    tile = fresh(f"{r.buffer.name}_s", Array(t, r.size, "shared"))
    at = (Var(r.band.var), _from_start(Var(r.loop.var), r.loop))

    def on_expr(e: Expr) -> Expr:
        return Load(tile, at) if isinstance(e, Load) and e.buffer == r.buffer else e

    def on_stmt(s: Stmt) -> Stmt:
        return dataclasses.replace(s, buffer=tile, index=at) if isinstance(s, Store) and s.buffer == r.buffer else s

    loop = dataclasses.replace(r.loop, body=map_body(r.loop.body, on_stmt, on_expr))
    band = dataclasses.replace(r.band, body=tuple(loop if s is r.loop else s for s in r.band.body))
    used_by: Body = (
        *((_copy(r, tile, at_once, into=True),) if r.is_read else ()),
        band,
        *((_copy(r, tile, at_once, into=False),) if r.is_written else ()),
    )
    return with_arrays(kernel, r.region, r.band, [Alloc(tile, align=16)], used_by)


def _from_start(e: Expr, loop: For) -> Expr:
    return simplify(sub(e, loop.init))


def _copy(r: Rows, tile: Sym, at_once: Expr, into: bool) -> Par:
    """The loops that fill the tile from the buffer, or the buffer from the tile, row by row."""
    end = counted_to(r.loop)
    t, u = r.band.var.type, r.loop.var.type
    assert isinstance(t, Scalar) and isinstance(u, Scalar) and end is not None
    row, column = fresh(f"{r.buffer.name}_r", t), fresh(f"{r.buffer.name}_c", u)
    where = {r.band.var: Var(row), r.loop.var: add(r.loop.init, Var(column))}
    index = (simplify(substitute_expr(r.index, where)),)
    at = (Var(row), Var(column))
    move = Store(tile, at, Load(r.buffer, index)) if into else Store(r.buffer, index, Load(tile, at))
    threads = next(lv for lv in r.band.dist if lv.kind == "thread")
    assert threads.n is not None
    across = (threads, Level("unroll", simplify(cdiv(r.size[1], threads.n))))
    free = "z" if threads.axis == "y" else "y"
    down = (Level("thread", at_once, free), Level("unroll", simplify(cdiv(r.size[0], at_once))))
    columns = Par(column, cast(i32(0), u), iterations(cast(r.loop.init, u), cast(end, u), u), across, (move,))
    return Par(row, r.band.lo, r.band.hi, down, (columns,), loc=r.loop.loc)
