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

``type=f16`` (or ``bf16``) holds factors that are whole numbers, each of which that type has, for tensor cores to take:
``s += f32(x[row, k]) * f32(q)`` of an unpacked ``q`` in 0..15 becomes a product of two elements of 16 bits. The table's
rows lie along what is packed in a word, so that a thread unpacks one word and stores its elements together.

Legal where the factor depends on the serial loop inside of ``loop`` and on one of the parallel loops of the block's
threads around it, of known extents, and reads nothing that the kernel writes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from ktc.ir.analysis.defs import definitions, expand
from ktc.ir.analysis.order import places
from ktc.ir.arith.affine import is_unit_stride
from ktc.ir.arith.integer_casts import without_casts
from ktc.ir.arith.kernel_facts import facts_of
from ktc.ir.arith.trust import REWRITES
from ktc.ir.fields import with_children
from ktc.ir.fold import add, cast, evaluate, simplify, sub
from ktc.ir.kernel import Kernel
from ktc.ir.nodes import (
    Alloc,
    Binary,
    Const,
    Expr,
    For,
    Load,
    Par,
    Stmt,
    Sym,
    Var,
    fresh,
)
from ktc.ir.purity import is_removable
from ktc.ir.storage import is_shared
from ktc.ir.types import BF16, F16, Array, Ptr, Scalar, scalar_of
from ktc.ir.walk import (
    assigned,
    declared,
    loads_in,
    map_body,
    map_expr,
    substitute_expr,
    used,
    walk,
    walk_expr,
)
from ktc.passes.core.argument_kinds import Loops
from ktc.passes.core.arguments import option, required
from ktc.passes.core.base import Pass, Site
from ktc.passes.core.knobs import largest
from ktc.passes.core.places import SERIAL, place_of
from ktc.passes.core.refusals import Refusal, Result, allowed
from ktc.passes.memory.region_reads import written_over
from ktc.passes.memory.swizzle_shared import UNIT
from ktc.passes.memory.tile_copy import thread_levels
from ktc.passes.shared.bands import Band, with_arrays

from .factor_tables import Factor, fill, runs_along
from .summed_tiles import Side, side_of, summed_tile, without_unused
from .whole_floats import as_integer, holds, whole_values

MOST = 8192
"""Elements of a table of factors at most; of one of 16 bits twice as many."""

HELD = {t.name: t for t in (F16, BF16)}
"""Types that tensor cores take, in which factors may be held."""


@dataclass(frozen=True)
class Arguments:
    loop: Loops = required("the serial loops over the tiles of sums")
    type: str | None = option(
        None, "hold factors that are whole numbers as this", code="E-FACTOR-TYPE", words=tuple(HELD)
    )


class StageFactors(Pass[Arguments]):
    name = "stage-factors"
    summary = "factors of a tile's sums that are computed, once a block and not by every thread"
    refusals = ("E-PLACE", "E-FACTOR-LOOP", "E-FACTOR-NONE", "E-FACTOR-SIZE", "E-FACTOR-TYPE")

    def sites(self, kernel: Kernel) -> list[Site]:
        """One for each serial loop with such a tile right inside."""
        if not kernel.is_parallel:
            return []
        serial = [s for s in walk(kernel.body) if isinstance(s, For) and any(isinstance(x, Par) for x in s.body)]
        doc = "computed once a block, not by every thread"
        return [Site(self.step(loop=place_of(kernel, s)), doc) for s in serial if allowed(_found, kernel, s, None)]

    def apply(self, kernel: Kernel, args: Arguments) -> Result:
        names = []
        for s in args.loop.find(kernel, SERIAL):
            here = next(x for x in walk(kernel.body) if isinstance(x, For) and x.var == s.var)
            found = _found(kernel, here, HELD[args.type] if args.type is not None else None)
            names += [f.sym.name for f in found.factors]
            kernel = _staged(kernel, found)
        return Result(kernel, (f"{', '.join(names)}: computed once a block",))


@dataclass(frozen=True)
class Found:
    band: Band
    sums: For
    reads: Mapping[Expr, Expr]
    factors: tuple[Factor, ...]


def _found(kernel: Kernel, loop: For, held: Scalar | None) -> Found:
    """The factors of the sums in the tile inside of ``loop``; ``held``: of whole numbers, which this type has."""
    found = summed_tile(kernel, loop, "E-FACTOR-LOOP")
    sums = found.sums
    if not isinstance(sums, For):
        raise Refusal(
            "E-FACTOR-LOOP", f"'{sums.var.name}' is no serial loop any more", places(sums), "before tensorize"
        )
    reader = _Reader(kernel, sums, found.tile, held)
    map_body(sums.body, lambda s: with_children(s, reader.read))
    if not reader.factors:
        why = "no value is computed of elements that depend on the sum's loop and one other alone"
        which = f", and is a whole number that {held} has" if held is not None else ""
        raise Refusal("E-FACTOR-NONE", why + which, places(loop))
    return Found(found.band, sums, reader.reads, tuple(reader.factors.values()))


class _Reader:
    """The factors that the expressions of ``sums`` are made of."""

    def __init__(self, kernel: Kernel, sums: For, tile: Sequence[Par], held: Scalar | None) -> None:
        self.kernel, self.sums, self.tile, self.held = kernel, sums, tile, held
        self.facts = facts_of(kernel, REWRITES)
        self.names = definitions(kernel.body, loads=True)
        self.own = ({*declared(tile[0].body), *assigned(tile[0].body)} | {p.var for p in tile}) - {sums.var}
        self.written, self.own_writes = assigned(kernel.body), assigned((tile[0],))
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
            at = f.place(_from(self.sums.var, f.terms.start), _from(along[0].var, f.across.start))
            self.reads[e] = cast(Load(f.sym, at), scalar_of(e.type), "c")
            return self.reads[e]
        return with_children(e, self.read)

    def _is_factor(self, e: Expr, value: Expr, across: Par) -> bool:
        t = e.type
        if not isinstance(t, Scalar) or not t.is_float or not is_removable(value) or isinstance(e, Load):
            return False
        if self.sums.var not in used(value) or used(value) & (self.own - {across.var}):
            return False
        loads = list(loads_in(value))
        if self.held is not None:
            values = whole_values(value, self.facts)
            if values is None or not holds(self.held, values):
                return False
        computed = self.held is not None or any(
            isinstance(x, Binary) and scalar_of(x.type).is_float for x in walk_expr(value)
        )
        return (
            bool(loads) and computed and all(map(self._is_constant, loads)) and not isinstance(without_casts(e), Load)
        )

    def _is_constant(self, x: Load) -> bool:
        """Whether ``x`` reads global memory that the kernel leaves alone, or a tile that is filled already."""
        if is_shared(x.buffer):
            return x.buffer not in self.own_writes
        return (
            isinstance(x.buffer.type, Ptr) and x.buffer not in self.written and not written_over(self.kernel, x.buffer)
        )

    def _factor(self, value: Expr, across: Par) -> Factor:
        sides = [side_of(x, "E-FACTOR-SIZE") for x in (self.sums, across)]
        knobs = largest(self.kernel)
        sizes = [evaluate(s.size, knobs) for s in sides]
        most = MOST if self.held is None else 2 * MOST
        if None in sizes or int(sizes[0] or 0) * int(sizes[1] or 0) > most:
            why = f"a table of '{self.sums.var.name}' and '{across.var.name}' would have more than {most} elements"
            raise Refusal("E-FACTOR-SIZE", why, places(self.sums, across), "tile makes them shorter")
        others = tuple(p for p in self.tile if p is not across)
        if self.held is None:
            sym = fresh("factor_s", Array(scalar_of(value.type), (sides[0].size, sides[1].size), "shared"))
            return Factor(sym, value, sides[0], sides[1], others)
        value = as_integer(value)
        for side in sides:
            value = map_expr(value, lambda e, side=side: self._in_tile(e, side))  # type: ignore[misc]
        terms, beside = self.sums.var, across.var
        along = _is_packed(value, terms) or not (_is_packed(value, beside) or runs_along(value, terms, beside))
        run = gcd(UNIT // self.held.bytes, int((sizes[0] if along else sizes[1]) or 1))
        shape = (sides[1].size, sides[0].size) if along else (sides[0].size, sides[1].size)
        sym = fresh("factor_s", Array(self.held, shape, "shared"))
        return Factor(sym, value, sides[0], sides[1], others, along, run)

    def _in_tile(self, e: Expr, side: Side) -> Expr:
        """``e``, where it is the word or the place in a word of an element, by the place in a tile that begins with a
        whole word."""
        v = side.loop.var
        if not isinstance(e, Binary) or e.op not in ("/", "%") or not isinstance(e.b, Const):
            return e
        start = substitute_expr(e.a, {v: side.start})
        if not is_unit_stride(e.a, v) or not self.facts.multiple_of(start, int(e.b.value)):
            return e
        place = simplify(sub(Var(v), side.start))
        inside = Binary(e.op, cast(place, scalar_of(e.type)), e.b)
        return inside if e.op == "%" else add(simplify(Binary("/", start, e.b)), inside)


def _is_packed(value: Expr, v: Sym) -> bool:
    """Whether words that ``value`` takes apart hold several places of ``v`` in a row each."""
    words = (x for e in walk_expr(value) if isinstance(e, Binary) and e.op == ">>" for x in loads_in(e.a))
    quotients = (q for x in words for i in x.index for q in walk_expr(i) if isinstance(q, Binary) and q.op == "/")
    return any(isinstance(q.b, Const) and is_unit_stride(q.a, v) for q in quotients)


def _from(v: Sym, start: Expr) -> Expr:
    return simplify(sub(Var(v), start))


# ---------------------------------------------------------------------------------------------------------- the rewrite


def _staged(kernel: Kernel, found: Found) -> Kernel:
    threads = thread_levels(kernel.body)
    reading = without_unused(map_body((found.band.holder,), lambda s: _read_instead(s, found)))
    fills = tuple(fill(f, threads) for f in found.factors)
    arrays = [Alloc(f.sym, align=16) for f in found.factors]
    return with_arrays(kernel, found.band.region, found.band.holder, arrays, (*fills, *reading))


def _read_instead(s: Stmt, found: Found) -> Stmt:
    if not isinstance(s, For) or s.var != found.sums.var:
        return s

    def read(e: Expr) -> Expr:
        return found.reads[e] if e in found.reads else with_children(e, read)

    return dataclasses.replace(s, body=map_body(s.body, lambda x: with_children(x, read)))


__all__ = ["StageFactors"]
