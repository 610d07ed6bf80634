"""Tables of computed factors: the loops that fill one, spread over a block's threads.

Where several elements come out of one word a thread fills a run of the table's row: computed in registers, and stored
together. Neighbours take what lies side by side in memory.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import reduce

from ktc.ir.arith.affine import cancelled, is_unit_stride
from ktc.ir.arith.loop_extents import extent_of
from ktc.ir.arith.polynomial import from_polynomial, polynomial
from ktc.ir.fold import add, binary, cast, i32, mul, simplify
from ktc.ir.nodes import (
    Alloc,
    Binary,
    Body,
    Const,
    Dist,
    Expr,
    Level,
    Load,
    Par,
    Select,
    Store,
    Sym,
    Var,
    fresh,
)
from ktc.ir.storage import is_shared
from ktc.ir.types import I32, Array, scalar_of
from ktc.ir.walk import (
    loads_in,
    map_expr,
    substitute_expr,
    used,
)
from ktc.passes.memory.tile_copy import spread

from .summed_tiles import Side


@dataclass(frozen=True)
class Factor:
    """``sym`` holds ``value``, of the serial loop ``terms`` and the parallel one ``across``; ``others``: the parallel
    loops that have it in common. ``along``: whether terms lie side by side there; ``run``: how many of them come out of
    one word, and are stored together."""

    sym: Sym
    value: Expr
    terms: Side
    across: Side
    others: tuple[Par, ...]
    along: bool = False
    run: int = 1

    def place(self, term: Expr, across: Expr) -> tuple[Expr, Expr]:
        return (across, term) if self.along else (term, across)


def fill(f: Factor, threads: Dist) -> Par:
    """One loop over the table, spread over the block's ``threads``: neighbours along what lies side by side in memory,
    each with a run of the table's row."""
    i, v = fresh("factor_i", I32), fresh("factor_v", I32)
    inner, outer = (f.terms, f.across) if f.along else (f.across, f.terms)
    length = cast(simplify(binary("/", inner.size, i32(f.run))), I32)  # runs of a row
    fast_is_inner = _neighbours_share_a_row(f, inner.loop.var, outer.loop.var)
    n = length if fast_is_inner else cast(outer.size, I32)
    fast, slow = binary("%", Var(i), n), binary("/", Var(i), n)
    start, other = (fast, slow) if fast_is_inner else (slow, fast)
    lane = Var(v) if f.run > 1 else i32(0)
    at = {id(inner): simplify(add(mul(start, i32(f.run)), lane)), id(outer): other}
    value, place = _value(f, at[id(f.terms)], at[id(f.across)]), f.place(at[id(f.terms)], at[id(f.across)])
    many = simplify(mul(length, cast(outer.size, I32)))
    dist = (*threads, Level("seq")) if f.run == 1 else spread(many, threads)
    return Par(i, i32(0), many, dist, _run(f, v, place, value))


def _neighbours_share_a_row(f: Factor, inner: Sym, outer: Sym) -> bool:
    """Whether neighbouring threads fill one row of the table, along ``inner``: with an element each where memory has
    these side by side, with a run of elements unless memory has those of other rows side by side."""
    if f.run == 1:
        return runs_along(f.value, outer, inner)
    return not runs_along(f.value, inner, outer)


def _run(f: Factor, v: Sym, place: tuple[Expr, Expr], value: Expr) -> Body:
    """A run of the table's row: computed in registers, and stored together."""
    if f.run == 1:
        return (Store(f.sym, place, value),)
    n, w = i32(f.run), fresh(v.name, I32)
    held = fresh("factor", Array(scalar_of(f.sym.type), (n,)))
    first, last = (substitute_expr(e, {v: Var(w)}) for e in place)
    computed = Par(v, i32(0), n, (Level("unroll", n),), (Store(held, (Var(v),), value),))
    stored = Par(w, i32(0), n, (Level("vec", n),), (Store(f.sym, (first, last), Load(held, (Var(w),))),))
    return (Alloc(held), computed, stored)


def _value(f: Factor, term: Expr, across: Expr) -> Expr:
    """The factor of one place of the tile, or 0 beyond its edges."""
    at = ((f.terms, term), (f.across, across))
    places_ = {s.loop.var: add(s.start, cast(x, scalar_of(s.loop.var.type))) for s, x in at}
    value = cast(map_expr(substitute_expr(f.value, places_), _placed), scalar_of(f.sym.type), "c")
    inside = [binary("<", cast(x, scalar_of(c.type)), c) for s, x in at for c in s.extent.clips]
    for p in f.others:
        reach = extent_of(p)
        inside += [binary("<", cast(i32(0), scalar_of(c.type)), c) for c in (reach.clips if reach is not None else ())]
    if inside:
        every = reduce(lambda a, b: Binary("&&", a, b), inside)
        value = Select(every, value, Const(0.0, scalar_of(value.type)))
    return value


def _placed(e: Expr) -> Expr:
    """``e``, a digit of a place in a tile or a load of one, without the start of the tile, which comes and goes."""
    if isinstance(e, Binary) and e.op in ("/", "%"):
        return dataclasses.replace(e, a=cancelled(e.a))
    if not isinstance(e, Load) or not is_shared(e.buffer):
        return e
    index = (from_polynomial(polynomial(i), scalar_of(i.type)) for i in e.index)
    return dataclasses.replace(e, index=tuple(index))


def runs_along(value: Expr, terms: Sym, across: Sym) -> bool:
    """Whether the elements that ``value`` reads at a place of both loops have their neighbours along ``across`` beside
    them."""
    both = [x for x in loads_in(value) if {terms, across} <= {v for i in x.index for v in used(i)}]
    return bool(both) and all(is_unit_stride(x.index[-1], across) for x in both)


__all__ = ["Factor", "fill", "runs_along"]
