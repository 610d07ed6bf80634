"""stage-factors: what a sum's terms are made of that half of its tile has in common is computed once a block.

before                                                   after stage-factors{loop=k_tile}
    for k_tile in 0..n step 16                               array factor_s: shared f32[16, 64]
      par row in 0..64 @ [unroll 4, thread.y 16]             for k_tile in 0..n step 16
        par col in 0..64 @ [unroll 4, thread.x 16]             par factor_i in 0..1024 @ [thread.x 16, thread.y 16, seq]
          for k in k_tile..k_tile + 16                           factor_s[factor_i % 16, factor_i / 16] =
            acc[row, col] += x[row, k] *                             f32(w[factor_i / 16, k_tile + factor_i % 16])
              (f32(w[col, k]) * scale[col] + shift[col])             * scale[factor_i / 16] + shift[factor_i / 16]
                                                               par row .. par col .. for k ..
                                                                 acc[row, col] += x[row, k] * factor_s[k - k_tile, col]

Weights in few bits are unpacked and scaled so: by every thread for each of its rows, or once a block, which then reads
the tile of results like one that was copied (``stage-shared`` copies what is loaded as it lies). The values are the
same to the last bit; a factor is computed where the tile would have, and is 0 beyond its edges.

Legal where the factor depends on the serial loop inside of ``loop`` and on one of the parallel loops of the block's
threads around it, of known extents, and reads nothing that the kernel writes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.order import pinned, places
from ktc.ir.arith.affine import is_unit_stride
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.arith.loop_extents import Extent, extent_of
from ktc.ir.fields import with_children
from ktc.ir.fold import add, binary, cast, evaluate, i32, simplify, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Binary,
    Body,
    Const,
    Decl,
    Dist,
    Expr,
    For,
    Level,
    Load,
    Par,
    Select,
    Stmt,
    Store,
    Sym,
    Var,
    fresh,
)
from ktc.ir.purity import is_removable
from ktc.ir.types import I32, Array, Ptr, Scalar, scalar_of
from ktc.ir.walk import assigned, declared, loads_in, map_body, substitute_expr, used, used_in, walk, walk_expr
from ktc.passes.core.argument_kinds import Loops
from ktc.passes.core.arguments import required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.knobs import largest
from ktc.passes.core.places import SERIAL, place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.shared.bands import Band, band_around, with_arrays
from ktc.passes.shared.tiles import paths

from .region_reads import written_over
from .tile_copy import thread_levels

MOST = 8192
"""Elements of a table of factors at most."""


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the serial loops over the tiles of sums")


class StageFactors(Pass[Arguments]):
    name = "stage-factors"
    summary = "factors of a tile's sums that are computed, once a block and not by every thread"
    refusals = ("E-PLACE", "E-FACTOR-LOOP", "E-FACTOR-NONE", "E-FACTOR-SIZE")

    def sites(self, kernel: Kernel) -> list[Site]:
        """One for each serial loop with such a tile right inside."""
        if not kernel.is_parallel:
            return []
        serial = [s for s in walk(kernel.body) if isinstance(s, For) and any(isinstance(x, Par) for x in s.body)]
        doc = "computed once a block, not by every thread"
        return [Site(self.step(loop=place_of(kernel, s)), doc) for s in serial if allowed(_found, kernel, s)]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        names = []
        for s in args.loop.find(kernel, SERIAL):
            here = next(x for x in walk(kernel.body) if isinstance(x, For) and x.var == s.var)
            found = _found(kernel, here)
            names += [f.sym.name for f in found.factors]
            kernel = _staged(kernel, found)
        return Result(kernel, (f"{', '.join(names)}: computed once a block",))


@dataclass(frozen=True)
class Side:
    """One of the two loops that a factor depends on: how far it runs at most, and what else ends it."""

    loop: For | Par
    size: Expr
    extent: Extent

    @property
    def start(self) -> Expr:
        return self.loop.init if isinstance(self.loop, For) else self.loop.lo


@dataclass(frozen=True)
class Factor:
    """``sym[k, col]`` holds ``value``, of the serial loop ``terms`` and the parallel one ``across``; ``others``: the
    parallel loops that have it in common."""

    sym: Sym
    value: Expr
    terms: Side
    across: Side
    others: tuple[Par, ...]


@dataclass(frozen=True)
class Found:
    band: Band
    sums: For
    reads: Mapping[Expr, Expr]
    factors: tuple[Factor, ...]


def _found(kernel: Kernel, loop: For) -> Found:
    """The factors of the sums in the tile inside of ``loop``."""
    locs = places(loop)
    inner = [
        s for s in walk(loop.body) if isinstance(s, For) and not any(isinstance(x, For | Par) for x in walk(s.body))
    ]
    if len(inner) != 1:
        raise Refusal("E-FACTOR-LOOP", f"'{loop.var.name}' holds no single serial loop that adds up a tile", locs)
    (sums,) = inner
    band = band_around(kernel, sums)
    if band is None or band.region is not loop or pinned(band.loop.body) is not None:
        why = f"the sums of '{sums.var.name}' stand in no loop over the block's threads right inside '{loop.var.name}'"
        raise Refusal("E-FACTOR-LOOP", why, locs, "register-tile turns a serial loop out")
    path = next(p for p in paths((band.loop,)) if p[-1] is sums)[:-1]
    tile = [s for s in path if isinstance(s, Par)]
    if len(tile) != len(path) or len(tile) < 2:
        why = f"'{sums.var.name}' does not stand right inside of two parallel loops or more"
        raise Refusal("E-FACTOR-LOOP", why, locs)
    reader = _Reader(kernel, sums, tile)
    map_body(sums.body, lambda s: with_children(s, reader.read))
    if not reader.factors:
        why = "no value is computed of elements that depend on the sum's loop and one other alone"
        raise Refusal("E-FACTOR-NONE", why, locs)
    return Found(band, sums, reader.reads, tuple(reader.factors.values()))


class _Reader:
    """The factors that the expressions of ``sums`` are made of."""

    def __init__(self, kernel: Kernel, sums: For, tile: list[Par]) -> None:
        self.kernel, self.sums, self.tile = kernel, sums, tile
        self.names = definitions(kernel.body, loads=True)
        self.own = ({*declared(tile[0].body), *assigned(tile[0].body)} | {p.var for p in tile}) - {sums.var}
        self.written = assigned(kernel.body)
        self.reads: dict[Expr, Expr] = {}
        self.factors: dict[Expr, Factor] = {}

    def read(self, e: Expr) -> Expr:
        """``e`` with what is read instead."""
        value = expand(e, self.names)
        along = [p for p in self.tile if p.var in used(value)]
        if len(along) == 1 and len(self.tile) > 1 and self._is_factor(e, value, along[0]):
            if value not in self.factors:
                self.factors[value] = self._factor(value, along[0])
            f = self.factors[value]
            at = (_from(self.sums.var, f.terms.start), _from(along[0].var, f.across.start))
            self.reads[e] = Load(f.sym, at)
            return self.reads[e]
        return with_children(e, self.read)

    def _is_factor(self, e: Expr, value: Expr, across: Par) -> bool:
        t = e.type
        if not isinstance(t, Scalar) or not t.is_float or not is_removable(value) or isinstance(e, Load):
            return False
        if self.sums.var not in used(value) or used(value) & (self.own - {across.var}):
            return False
        loads = list(loads_in(value))
        computed = any(isinstance(x, Binary) and scalar_of(x.type).is_float for x in walk_expr(value))
        return (
            bool(loads) and computed and all(map(self._is_constant, loads)) and not isinstance(without_casts(e), Load)
        )

    def _is_constant(self, x: Load) -> bool:
        """Whether ``x`` reads global memory that the kernel leaves alone."""
        return (
            isinstance(x.buffer.type, Ptr) and x.buffer not in self.written and not written_over(self.kernel, x.buffer)
        )

    def _factor(self, value: Expr, across: Par) -> Factor:
        sides = [self._side(self.sums), self._side(across)]
        knobs = largest(self.kernel)
        sizes = [evaluate(s.size, knobs) for s in sides]
        if None in sizes or int(sizes[0] or 0) * int(sizes[1] or 0) > MOST:
            why = f"a table of '{self.sums.var.name}' and '{across.var.name}' would have more than {MOST} elements"
            raise Refusal("E-FACTOR-SIZE", why, places(self.sums, across), "tile makes them shorter")
        sym = fresh("factor_s", Array(scalar_of(value.type), (sides[0].size, sides[1].size), "shared"))
        others = tuple(p for p in self.tile if p is not across)
        return Factor(sym, value, sides[0], sides[1], others)

    def _side(self, s: For | Par) -> Side:
        reach = extent_of(s)
        if reach is None or reach.cap is None:
            why = f"how often '{s.var.name}' runs is not known before launch"
            raise Refusal("E-FACTOR-SIZE", why, places(s), "tile makes a loop of known length out of a long one")
        return Side(s, reach.cap, reach)


def _from(v: Sym, start: Expr) -> Expr:
    return simplify(sub(Var(v), start))


# ---------------------------------------------------------------------------------------------------------- the rewrite


def _staged(kernel: Kernel, found: Found) -> Kernel:
    threads = (*thread_levels(kernel.body), Level("seq"))
    reading = map_body((found.band.holder,), lambda s: _read_instead(s, found))
    fills = tuple(_fill(f, threads) for f in found.factors)
    arrays = [Alloc(f.sym, align=16) for f in found.factors]
    return with_arrays(kernel, found.band.region, found.band.holder, arrays, (*fills, *reading))


def _read_instead(s: Stmt, found: Found) -> Stmt:
    if not isinstance(s, For) or s.var != found.sums.var:
        return s

    def read(e: Expr) -> Expr:
        return found.reads[e] if e in found.reads else with_children(e, read)

    body: Body = map_body(s.body, lambda x: with_children(x, read))
    return dataclasses.replace(s, body=_without_unused(body))


def _without_unused(body: Body) -> Body:
    """``body`` without names of values that only factors were made of."""
    while True:
        unused = [d for d in body if isinstance(d, Decl) and d.sym not in used_in(body) | assigned(body)]
        if not unused:
            return body
        body = tuple(s for s in body if s not in unused)


def _fill(f: Factor, threads: Dist) -> Par:
    """One loop over the elements of the table, spread over the block's ``threads``: neighbours along what lies side by
    side in memory."""
    i = fresh("factor_i", I32)
    beside = list(_side_by_side(f))
    fast, slow = (f.across, f.terms) if beside and all(beside) else (f.terms, f.across)
    n = cast(fast.size, I32)
    at = {id(fast): binary("%", Var(i), n), id(slow): binary("/", Var(i), n)}
    places_ = {s.loop.var: add(s.start, cast(at[id(s)], scalar_of(s.loop.var.type))) for s in (f.terms, f.across)}
    value = substitute_expr(f.value, places_)
    inside = [binary("<", cast(at[id(s)], scalar_of(c.type)), c) for s in (f.terms, f.across) for c in s.extent.clips]
    for p in f.others:
        reach = extent_of(p)
        inside += [binary("<", cast(i32(0), scalar_of(c.type)), c) for c in (reach.clips if reach is not None else ())]
    if inside:
        every = reduce(lambda a, b: Binary("&&", a, b), inside)
        value = Select(every, value, Const(0.0, scalar_of(value.type)))
    store = Store(f.sym, (at[id(f.terms)], at[id(f.across)]), value)
    return Par(i, i32(0), simplify(binary("*", n, cast(slow.size, I32))), threads, (store,))


def _side_by_side(f: Factor) -> Iterator[bool]:
    """Of each element that a factor reads at a place of both loops, whether ``across`` moves by one element."""
    for x in loads_in(f.value):
        if {f.terms.loop.var, f.across.loop.var} <= {v for i in x.index for v in used(i)}:
            yield is_unit_stride(x.index[-1], f.across.loop.var)


__all__ = ["StageFactors"]
